//! gemv: a thread per row of the matrix: the lanes of a warp read 32 rows at once.

use warpfold_lang::{Global, Kernel, Val, block_dim, block_idx, kernel, range, thread_idx, var};

/// Blocks of the grid.
pub const GRID: [u32; 3] = [2, 1, 1];
/// Threads of a block.
pub const BLOCK: [u32; 3] = [32, 1, 1];

/// The kernel.
pub fn solution() -> Kernel<(Global<f32>, Global<f32>, Global<f32>, u32)> {
    kernel("gemv", |a: Global<f32>, x: Global<f32>, y: Global<f32>, n: Val<u32>| {
        let row = block_idx().x * block_dim().x + thread_idx().x;
        let sum = var(0.0_f32);
        range(0, n, 1, |k| sum.update(|sum| a.at(row * n + k).get().mul_add(x.at(k).get(), sum)));
        y.at(row).set(sum.get());
    })
}
