//! wgmma: what was stored is shown to the tensor cores, and their sums are waited for.

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
    kernel("wgmma", |a: Global<f32>, b: Global<f32>, y: Global<f32>, _n: Val<u32>| {
        let (left, right) = (tile::<f16>(64, 64, Swizzle::Bytes128), tile::<f16>(64, 64, Swizzle::Bytes128));
        range(thread_idx().x, 64 * 64, 128, |i| {
            left.at(i / 64, i % 64).set(a.at(i).get().cast::<f16>());
            right.at(i / 64, i % 64).set(b.at(i).get().cast::<f16>());
        });
        fence_async();
        sync_threads();
        let sums = WarpgroupSums::<f16>::new(64);
        wgmma_fence();
        sums.add_product(&Operands { a: left, a_major: Major::K, b: right, b_major: Major::K }, false);
        wgmma_commit();
        wgmma_wait(0);
        for (row, column, pair) in sums.pairs() {
            y.at(row * 64 + column).set_vec(pair);
        }
    })
    .required_block(128)
}
