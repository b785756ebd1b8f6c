//! layer-norm: each pass loads the row again.

use warpfold_lang::{Global, Kernel, Val, block_idx, kernel, lane_id, range, shfl_xor, var, warp_id};

/// Blocks of the grid.
pub const GRID: [u32; 3] = [2, 1, 1];
/// Threads of a block.
pub const BLOCK: [u32; 3] = [256, 1, 1];

/// The kernel.
pub fn solution() -> Kernel<(Global<f32>, Global<f32>, u32)> {
    kernel("layer_norm", |x: Global<f32>, y: Global<f32>, n: Val<u32>| {
        let row = x.at((block_idx().x * 8 + warp_id()) * n);
        let out = y.at((block_idx().x * 8 + warp_id()) * n);
        let fold = |value: Val<f32>| {
            [16, 8, 4, 2, 1].into_iter().fold(value, |sum, bits| sum + shfl_xor(sum, bits)) / n.cast::<f32>()
        };
        let (sum, squares) = (var(0.0_f32), var(0.0_f32));
        range(lane_id(), n, 32, |i| sum.add_assign(row.at(i).get()));
        let mean = fold(sum.get());
        range(lane_id(), n, 32, |i| {
            let above = row.at(i).get() - mean;
            squares.add_assign(above * above);
        });
        let scale = fold(squares.get()).rsqrt();
        range(lane_id(), n, 32, |i| out.at(i).set((row.at(i).get() - mean) * scale));
    })
}
