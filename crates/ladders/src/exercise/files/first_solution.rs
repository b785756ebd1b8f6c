//! first: the first number comes from lane 0.

use warpfold_lang::{Global, Kernel, Val, kernel, shfl, thread_idx};

/// Blocks of the grid.
pub const GRID: [u32; 3] = [1, 1, 1];
/// Threads of a block.
pub const BLOCK: [u32; 3] = [256, 1, 1];

/// The kernel.
pub fn solution() -> Kernel<(Global<f32>, Global<f32>, u32)> {
    kernel("first", |x: Global<f32>, y: Global<f32>, _n: Val<u32>| {
        let own = x.at(thread_idx().x).get();
        y.at(thread_idx().x).set(own - shfl(own, 0));
    })
}
