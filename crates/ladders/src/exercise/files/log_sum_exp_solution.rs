//! log-sum-exp: the sum is rescaled where the maximum changes.

use warpfold_lang::{Global, Kernel, Val, kernel, lane_id, range, shfl_xor, var, warp_id, when};

/// Blocks of the grid.
pub const GRID: [u32; 3] = [1, 1, 1];
/// Threads of a block.
pub const BLOCK: [u32; 3] = [256, 1, 1];

/// The kernel.
pub fn solution() -> Kernel<(Global<f32>, Global<f32>, u32)> {
    kernel("log_sum_exp", |x: Global<f32>, y: Global<f32>, n: Val<u32>| {
        let row = x.at(warp_id() * n);
        let (most, sum) = (var(row.at(lane_id()).get()), var(1.0_f32));
        let take = |other: Val<f32>, of_other: Val<f32>| {
            let larger = most.get().max(other);
            sum.set(sum.get() * (most.get() - larger).exp() + of_other * (other - larger).exp());
            most.set(larger);
        };
        range(lane_id() + 32, n, 32, |i| take(row.at(i).get(), Val::constant(1.0_f32)));
        for bits in [16, 8, 4, 2, 1] {
            take(shfl_xor(most.get(), bits), shfl_xor(sum.get(), bits));
        }
        when(lane_id().eq(0), || y.at(warp_id()).set(most.get() + sum.get().ln()));
    })
}
