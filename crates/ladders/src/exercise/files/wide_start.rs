//! wide: a load brings 4 bytes per lane.

use warpfold_lang::{Global, Kernel, Val, kernel, lane_id, range, shfl_xor, var, warp_id, when};

/// Blocks of the grid.
pub const GRID: [u32; 3] = [1, 1, 1];
/// Threads of a block.
pub const BLOCK: [u32; 3] = [256, 1, 1];

/// The kernel.
pub fn solution() -> Kernel<(Global<f32>, Global<f32>, Global<f32>, u32)> {
    kernel("wide", |a: Global<f32>, b: Global<f32>, y: Global<f32>, n: Val<u32>| {
        let sum = var(0.0_f32);
        range(lane_id(), n, 32, |k| {
            sum.update(|sum| a.at(warp_id() * n + k).get().mul_add(b.at(k).get(), sum));
        });
        for bits in [16, 8, 4, 2, 1] {
            sum.add_assign(shfl_xor(sum.get(), bits));
        }
        when(lane_id().eq(0), || y.at(warp_id()).set(sum.get()));
    })
}
