//! blocks: a thread's place in the grid is that of its block, and its own in the block.

use warpfold_lang::{Global, Kernel, Val, block_dim, block_idx, kernel, thread_idx};

/// Blocks of the grid.
pub const GRID: [u32; 3] = [40, 1, 1];
/// Threads of a block.
pub const BLOCK: [u32; 3] = [256, 1, 1];

/// The kernel.
pub fn solution() -> Kernel<(Global<f32>, Global<f32>, Global<f32>, u32)> {
    kernel("blocks", |a: Global<f32>, b: Global<f32>, y: Global<f32>, _n: Val<u32>| {
        let i = block_idx().x * block_dim().x + thread_idx().x;
        y.at(i).set(a.at(i).get() + b.at(i).get());
    })
}
