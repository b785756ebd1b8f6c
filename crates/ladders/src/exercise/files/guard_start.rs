//! guard: the last block has more threads than there are numbers.

use warpfold_lang::{Global, Kernel, Val, block_dim, block_idx, kernel, thread_idx};

/// Blocks of the grid.
pub const GRID: [u32; 3] = [4, 1, 1];
/// Threads of a block.
pub const BLOCK: [u32; 3] = [256, 1, 1];

/// The kernel.
pub fn solution() -> Kernel<(Global<f32>, Global<f32>, u32)> {
    kernel("guard", |x: Global<f32>, y: Global<f32>, _n: Val<u32>| {
        let i = block_idx().x * block_dim().x + thread_idx().x;
        y.at(i).set(x.at(i).get() + 1.0);
    })
}
