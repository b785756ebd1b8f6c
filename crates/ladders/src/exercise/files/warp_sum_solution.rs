//! warp-sum: lanes exchange sums, from distance 16 down to 1.

use warpfold_lang::{Global, Kernel, Val, kernel, lane_id, shfl_xor, var, when};

/// Blocks of the grid.
pub const GRID: [u32; 3] = [1, 1, 1];
/// Threads of a block.
pub const BLOCK: [u32; 3] = [32, 1, 1];

/// The kernel.
pub fn solution() -> Kernel<(Global<f32>, Global<f32>, u32)> {
    kernel("warp_sum", |x: Global<f32>, y: Global<f32>, _n: Val<u32>| {
        let sum = var(x.at(lane_id()).get());
        for bits in [16, 8, 4, 2, 1] {
            sum.add_assign(shfl_xor(sum.get(), bits));
        }
        when(lane_id().eq(0), || y.set(sum.get()));
    })
}
