//! first: the first number is loaded again.

use warpfold_lang::{Global, Kernel, Val, kernel, thread_idx, warp_id};

/// Blocks of the grid.
pub const GRID: [u32; 3] = [1, 1, 1];
/// Threads of a block.
pub const BLOCK: [u32; 3] = [256, 1, 1];

/// The kernel.
pub fn solution() -> Kernel<(Global<f32>, Global<f32>, u32)> {
    kernel("first", |x: Global<f32>, y: Global<f32>, _n: Val<u32>| {
        let i = thread_idx().x;
        y.at(i).set(x.at(i).get() - x.at(warp_id() * 32).get());
    })
}
