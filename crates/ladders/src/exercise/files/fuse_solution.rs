//! fuse: the difference stays in a register.

use warpfold_lang::{Global, Kernel, Val, block_idx, kernel, thread_idx};

/// Blocks of the grid.
pub const GRID: [u32; 3] = [16, 1, 1];
/// Threads of a block.
pub const BLOCK: [u32; 3] = [256, 1, 1];

/// The kernel.
pub fn solution() -> Kernel<(Global<f32>, Global<f32>, Global<f32>, u32)> {
    kernel("fuse", |a: Global<f32>, b: Global<f32>, y: Global<f32>, n: Val<u32>| {
        let i = block_idx().x * 256 + thread_idx().x;
        let difference = a.at(i).get() - b.at(i % n).get();
        y.at(i).set(difference.max(0.0));
    })
}
