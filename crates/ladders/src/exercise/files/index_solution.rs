//! index: each thread has a place, which its index in the block says.

use warpfold_lang::{Global, Kernel, Val, kernel, thread_idx};

/// Blocks of the grid.
pub const GRID: [u32; 3] = [1, 1, 1];
/// Threads of a block.
pub const BLOCK: [u32; 3] = [256, 1, 1];

/// The kernel.
pub fn solution() -> Kernel<(Global<f32>, u32)> {
    kernel("index", |y: Global<f32>, _n: Val<u32>| {
        let i = thread_idx().x;
        y.at(i).set(i.cast::<f32>());
    })
}
