//! prefix: the tree of Hillis and Steele in shared memory, two barriers a level.

use warpfold_lang::{Global, Kernel, Val, kernel, shared, sync_threads, thread_idx, when};

/// Blocks of the grid.
pub const GRID: [u32; 3] = [1, 1, 1];
/// Threads of a block.
pub const BLOCK: [u32; 3] = [256, 1, 1];

/// The kernel.
pub fn solution() -> Kernel<(Global<f32>, Global<f32>, u32)> {
    kernel("prefix", |x: Global<f32>, y: Global<f32>, _n: Val<u32>| {
        let (tile, thread) = (shared::<f32>(256), thread_idx().x);
        tile.at(thread).set(x.at(thread).get());
        for step in [1_u32, 2, 4, 8, 16, 32, 64, 128] {
            sync_threads();
            let before = tile.at(thread.max(step) - step).get();
            sync_threads();
            when(thread.ge(step), || tile.at(thread).add_assign(before));
        }
        y.at(thread).set(tile.at(thread).get());
    })
}
