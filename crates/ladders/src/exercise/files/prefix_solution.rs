//! prefix: warps scan by shuffles, and the totals of the warps before are added.

use warpfold_lang::{
    Global, Kernel, Val, kernel, lane_id, shared, shfl_up, sync_threads, thread_idx, var, warp_id, when,
};

/// Blocks of the grid.
pub const GRID: [u32; 3] = [1, 1, 1];
/// Threads of a block.
pub const BLOCK: [u32; 3] = [256, 1, 1];

/// The kernel.
pub fn solution() -> Kernel<(Global<f32>, Global<f32>, u32)> {
    kernel("prefix", |x: Global<f32>, y: Global<f32>, _n: Val<u32>| {
        let (totals, thread) = (shared::<f32>(8), thread_idx().x);
        let sum = var(x.at(thread).get());
        for step in [1_u32, 2, 4, 8, 16] {
            let before = shfl_up(sum.get(), step);
            when(lane_id().ge(step), || sum.add_assign(before));
        }
        when(lane_id().eq(31), || totals.at(warp_id()).set(sum.get()));
        sync_threads();
        for warp in 0..7_u32 {
            when(warp_id().gt(warp), || sum.add_assign(totals.at(warp).get()));
        }
        y.at(thread).set(sum.get());
    })
}
