//! rows: a warp per row: its lanes read neighbours, and fold by shuffles.

use warpfold_lang::{Global, Kernel, Val, block_idx, kernel, lane_id, range, shfl_xor, var, warp_id, when};

/// Blocks of the grid.
pub const GRID: [u32; 3] = [8, 1, 1];
/// Threads of a block.
pub const BLOCK: [u32; 3] = [256, 1, 1];

/// The kernel.
pub fn solution() -> Kernel<(Global<f32>, Global<f32>, u32)> {
    kernel("rows", |x: Global<f32>, y: Global<f32>, n: Val<u32>| {
        let row = block_idx().x * 8 + warp_id();
        let sum = var(0.0_f32);
        range(lane_id(), n, 32, |k| sum.add_assign(x.at(row * n + k).get()));
        for bits in [16, 8, 4, 2, 1] {
            sum.add_assign(shfl_xor(sum.get(), bits));
        }
        when(lane_id().eq(0), || y.at(row).set(sum.get()));
    })
}
