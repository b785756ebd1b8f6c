//! accumulate: the second panel overwrites the sums of the first.

use half::f16;
use warpfold_lang::{
    Global, Kernel, Major, Operands, Swizzle, Val, WarpgroupSums, fence_async, kernel, range, sync_threads, thread_idx,
    tile, wgmma_commit, wgmma_fence, wgmma_wait,
};

/// Blocks of the grid.
pub const GRID: [u32; 3] = [1, 1, 1];
/// Threads of a block.
pub const BLOCK: [u32; 3] = [128, 1, 1];

/// The kernel.
pub fn solution() -> Kernel<(Global<f32>, Global<f32>, Global<f32>, u32)> {
    kernel("accumulate", |a: Global<f32>, b: Global<f32>, y: Global<f32>, n: Val<u32>| {
        let (left, right) = (tile::<f16>(64, 64, Swizzle::Bytes128), tile::<f16>(64, 64, Swizzle::Bytes128));
        let sums = WarpgroupSums::<f16>::new(64);
        for panel in [0_u32, 1] {
            range(thread_idx().x, 64 * 64, 128, |i| {
                let from = i / 64 * n + i % 64 + 64 * panel;
                left.at(i / 64, i % 64).set(a.at(from).get().cast::<f16>());
                right.at(i / 64, i % 64).set(b.at(from).get().cast::<f16>());
            });
            fence_async();
            sync_threads();
            wgmma_fence();
            sums.add_product(&Operands { a: left, a_major: Major::K, b: right, b_major: Major::K }, false);
            wgmma_commit();
            wgmma_wait(0);
            sync_threads();
        }
        for (row, column, pair) in sums.pairs() {
            y.at(row * 64 + column).set_vec(pair);
        }
    })
    .required_block(128)
}
