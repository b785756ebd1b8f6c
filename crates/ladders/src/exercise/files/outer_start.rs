//! outer: one list is read at the place in the output.

use warpfold_lang::{Global, Kernel, Val, block_idx, kernel, thread_idx};

/// Blocks of the grid.
pub const GRID: [u32; 3] = [4, 4, 1];
/// Threads of a block.
pub const BLOCK: [u32; 3] = [16, 16, 1];

/// The kernel.
pub fn solution() -> Kernel<(Global<f32>, Global<f32>, Global<f32>, u32)> {
    kernel("outer", |a: Global<f32>, b: Global<f32>, y: Global<f32>, n: Val<u32>| {
        let column = block_idx().x * 16 + thread_idx().x;
        let row = block_idx().y * 16 + thread_idx().y;
        y.at(row * n + column).set(a.at(column).get() + b.at(row).get());
    })
}
