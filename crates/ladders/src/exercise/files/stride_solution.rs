//! stride: each thread takes every 2048th number: a grid-stride loop.

use warpfold_lang::{Global, Kernel, Val, block_dim, block_idx, grid_dim, kernel, range, thread_idx};

/// Blocks of the grid.
pub const GRID: [u32; 3] = [8, 1, 1];
/// Threads of a block.
pub const BLOCK: [u32; 3] = [256, 1, 1];

/// The kernel.
pub fn solution() -> Kernel<(Global<f32>, Global<f32>, u32)> {
    kernel("stride", |x: Global<f32>, y: Global<f32>, n: Val<u32>| {
        let thread = block_idx().x * block_dim().x + thread_idx().x;
        range(thread, n, grid_dim().x * block_dim().x, |i| y.at(i).set(x.at(i).get() * 3.0));
    })
}
