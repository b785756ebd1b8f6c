//! histogram: atomics on shared memory.

use warpfold_lang::{Global, Kernel, Val, kernel, range, shared, sync_threads, thread_idx, when};

/// Blocks of the grid.
pub const GRID: [u32; 3] = [1, 1, 1];
/// Threads of a block.
pub const BLOCK: [u32; 3] = [256, 1, 1];

/// The kernel.
pub fn solution() -> Kernel<(Global<f32>, Global<f32>, u32)> {
    kernel("histogram", |x: Global<f32>, y: Global<f32>, n: Val<u32>| {
        let counts = shared::<u32>(16);
        when(thread_idx().x.lt(16), || counts.at(thread_idx().x).set(0));
        sync_threads();
        range(thread_idx().x, n, 256, |i| {
            counts.at(x.at(i).get().cast::<u32>()).atomic().add(1);
        });
        sync_threads();
        when(thread_idx().x.lt(16), || y.at(thread_idx().x).set(counts.at(thread_idx().x).get().cast::<f32>()));
    })
}
