//! log-sum-exp: one pass for the maximum, one for the sum.

use warpfold_lang::{Global, Kernel, Val, kernel, lane_id, range, shfl_xor, var, warp_id, when};

/// Blocks of the grid.
pub const GRID: [u32; 3] = [1, 1, 1];
/// Threads of a block.
pub const BLOCK: [u32; 3] = [256, 1, 1];

/// The kernel.
pub fn solution() -> Kernel<(Global<f32>, Global<f32>, u32)> {
    kernel("log_sum_exp", |x: Global<f32>, y: Global<f32>, n: Val<u32>| {
        let row = x.at(warp_id() * n);
        let (most, sum) = (var(f32::NEG_INFINITY), var(0.0_f32));
        range(lane_id(), n, 32, |i| most.update(|most| most.max(row.at(i).get())));
        for bits in [16, 8, 4, 2, 1] {
            most.update(|most| most.max(shfl_xor(most, bits)));
        }
        range(lane_id(), n, 32, |i| sum.add_assign((row.at(i).get() - most.get()).exp()));
        for bits in [16, 8, 4, 2, 1] {
            sum.add_assign(shfl_xor(sum.get(), bits));
        }
        when(lane_id().eq(0), || y.at(warp_id()).set(most.get() + sum.get().ln()));
    })
}
