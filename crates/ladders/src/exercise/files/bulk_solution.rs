//! bulk: all threads wait for the phase that the copy completes.

use warpfold_lang::{Barriers, Global, Kernel, Val, barriers, kernel, shared, sync_threads, thread_idx, when};

/// Blocks of the grid.
pub const GRID: [u32; 3] = [1, 1, 1];
/// Threads of a block.
pub const BLOCK: [u32; 3] = [256, 1, 1];

/// The kernel.
pub fn solution() -> Kernel<(Global<f32>, Global<f32>, u32)> {
    kernel("bulk", |x: Global<f32>, y: Global<f32>, n: Val<u32>| {
        let (tile, thread, arrived) = (shared::<f32>(256), thread_idx().x, barriers(1));
        when(thread.eq(0), || {
            arrived.init(1);
            Barriers::publish();
            arrived.at(0).arrive_expect(1024);
            tile.copy_bulk(x, 1024, arrived.at(0));
        });
        sync_threads();
        arrived.at(0).wait(0);
        y.at(thread).set(tile.at(n - 1 - thread).get());
    })
}
