//! reverse: through shared memory, and a barrier is missing.

use warpfold_lang::{Global, Kernel, Val, kernel, shared_named, thread_idx};

/// Blocks of the grid.
pub const GRID: [u32; 3] = [1, 1, 1];
/// Threads of a block.
pub const BLOCK: [u32; 3] = [256, 1, 1];

/// The kernel.
pub fn solution() -> Kernel<(Global<f32>, Global<f32>, u32)> {
    kernel("reverse", |x: Global<f32>, y: Global<f32>, n: Val<u32>| {
        let (tile, thread) = (shared_named::<f32>("tile", 256), thread_idx().x);
        tile.at(thread).set(x.at(thread).get());
        y.at(thread).set(tile.at(n - 1 - thread).get());
    })
}
