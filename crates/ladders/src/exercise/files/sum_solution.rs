//! sum: warps fold by shuffles, and one word per warp goes through shared memory.

use warpfold_lang::{
    Global, Kernel, Val, kernel, lane_id, range, shared, shfl_xor, sync_threads, thread_idx, var, warp_id, when,
};

/// Blocks of the grid.
pub const GRID: [u32; 3] = [1, 1, 1];
/// Threads of a block.
pub const BLOCK: [u32; 3] = [256, 1, 1];

/// The kernel.
pub fn solution() -> Kernel<(Global<f32>, Global<f32>, u32)> {
    kernel("sum", |x: Global<f32>, y: Global<f32>, n: Val<u32>| {
        let (parts, sum) = (shared::<f32>(8), var(0.0_f32));
        range(thread_idx().x, n, 256, |i| sum.add_assign(x.at(i).get()));
        for bits in [16, 8, 4, 2, 1] {
            sum.add_assign(shfl_xor(sum.get(), bits));
        }
        when(lane_id().eq(0), || parts.at(warp_id()).set(sum.get()));
        sync_threads();
        when(thread_idx().x.eq(0), || {
            let total = (0..8).map(|warp| parts.at(warp).get()).reduce(|a, b| a + b).expect("eight warps");
            y.set(total);
        });
    })
}
