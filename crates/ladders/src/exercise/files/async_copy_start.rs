//! async-copy: nobody waits for the copy.

use warpfold_lang::{Global, Kernel, Val, commit_copies, kernel, shared, sync_threads, thread_idx};

/// Blocks of the grid.
pub const GRID: [u32; 3] = [1, 1, 1];
/// Threads of a block.
pub const BLOCK: [u32; 3] = [256, 1, 1];

/// The kernel.
pub fn solution() -> Kernel<(Global<f32>, Global<f32>, u32)> {
    kernel("async_copy", |x: Global<f32>, y: Global<f32>, n: Val<u32>| {
        let (tile, thread) = (shared::<f32>(256), thread_idx().x);
        tile.at(thread).copy_async::<1>(x.at(thread));
        commit_copies();
        sync_threads();
        y.at(thread).set(tile.at(n - 1 - thread).get());
    })
}
