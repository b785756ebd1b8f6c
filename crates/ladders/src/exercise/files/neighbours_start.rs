//! neighbours: each thread loads its number and both neighbours.

use warpfold_lang::{Global, Kernel, Val, kernel, thread_idx};

/// Blocks of the grid.
pub const GRID: [u32; 3] = [1, 1, 1];
/// Threads of a block.
pub const BLOCK: [u32; 3] = [256, 1, 1];

/// The kernel.
pub fn solution() -> Kernel<(Global<f32>, Global<f32>, u32)> {
    kernel("neighbours", |x: Global<f32>, y: Global<f32>, n: Val<u32>| {
        let i = thread_idx().x;
        let left = x.at(i - 1).get_or(0.0, i.gt(0));
        let right = x.at(i + 1).get_or(0.0, (i + 1).lt(n));
        y.at(i).set(left + x.at(i).get() + right);
    })
}
