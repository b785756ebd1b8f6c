//! guard: threads beyond the last number do nothing.

use warpfold_lang::{Global, Kernel, Val, block_dim, block_idx, kernel, thread_idx, when};

/// Blocks of the grid.
pub const GRID: [u32; 3] = [4, 1, 1];
/// Threads of a block.
pub const BLOCK: [u32; 3] = [256, 1, 1];

/// The kernel.
pub fn solution() -> Kernel<(Global<f32>, Global<f32>, u32)> {
    kernel("guard", |x: Global<f32>, y: Global<f32>, n: Val<u32>| {
        let i = block_idx().x * block_dim().x + thread_idx().x;
        when(i.lt(n), || y.at(i).set(x.at(i).get() + 1.0));
    })
}
