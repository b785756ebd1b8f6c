//! index: every thread writes to the same place.

use warpfold_lang::{Global, Kernel, Val, kernel, thread_idx};

/// Blocks of the grid.
pub const GRID: [u32; 3] = [1, 1, 1];
/// Threads of a block.
pub const BLOCK: [u32; 3] = [256, 1, 1];

/// The kernel.
pub fn solution() -> Kernel<(Global<f32>, u32)> {
    kernel("index", |y: Global<f32>, _n: Val<u32>| {
        y.set(thread_idx().x.cast::<f32>());
    })
}
