//! sum: a tree in shared memory, one barrier a level.

use warpfold_lang::{Global, Kernel, Val, kernel, range, shared, sync_threads, thread_idx, var, when};

/// Blocks of the grid.
pub const GRID: [u32; 3] = [1, 1, 1];
/// Threads of a block.
pub const BLOCK: [u32; 3] = [256, 1, 1];

/// The kernel.
pub fn solution() -> Kernel<(Global<f32>, Global<f32>, u32)> {
    kernel("sum", |x: Global<f32>, y: Global<f32>, n: Val<u32>| {
        let (tile, thread) = (shared::<f32>(256), thread_idx().x);
        let sum = var(0.0_f32);
        range(thread, n, 256, |i| sum.add_assign(x.at(i).get()));
        tile.at(thread).set(sum.get());
        sync_threads();
        for stride in [1, 2, 4, 8, 16, 32, 64, 128] {
            when((thread & (2 * stride - 1)).eq(0), || tile.at(thread).add_assign(tile.at(thread + stride).get()));
            sync_threads();
        }
        when(thread.eq(0), || y.set(tile.at(0).get()));
    })
}
