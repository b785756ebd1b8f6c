//! blocks: each block does what the first one does.

use warpfold_lang::{Global, Kernel, Val, kernel, thread_idx};

/// Blocks of the grid.
pub const GRID: [u32; 3] = [40, 1, 1];
/// Threads of a block.
pub const BLOCK: [u32; 3] = [256, 1, 1];

/// The kernel.
pub fn solution() -> Kernel<(Global<f32>, Global<f32>, Global<f32>, u32)> {
    kernel("blocks", |a: Global<f32>, b: Global<f32>, y: Global<f32>, _n: Val<u32>| {
        let i = thread_idx().x;
        y.at(i).set(a.at(i).get() + b.at(i).get());
    })
}
