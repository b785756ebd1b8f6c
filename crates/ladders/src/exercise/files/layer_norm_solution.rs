//! layer-norm: the row stays in registers.

use warpfold_lang::{Global, Kernel, Val, block_idx, kernel, lane_id, shfl_xor, warp_id};

/// Blocks of the grid.
pub const GRID: [u32; 3] = [2, 1, 1];
/// Threads of a block.
pub const BLOCK: [u32; 3] = [256, 1, 1];

/// The kernel.
pub fn solution() -> Kernel<(Global<f32>, Global<f32>, u32)> {
    kernel("layer_norm", |x: Global<f32>, y: Global<f32>, n: Val<u32>| {
        let row = (block_idx().x * 8 + warp_id()) * n + lane_id();
        let fold = |value: Val<f32>| {
            [16, 8, 4, 2, 1].into_iter().fold(value, |sum, bits| sum + shfl_xor(sum, bits)) / n.cast::<f32>()
        };
        let places: [u32; 8] = std::array::from_fn(|i| 32 * i as u32);
        let own = places.map(|place| x.at(row + place).get());
        let mean = fold(own.into_iter().reduce(|a, b| a + b).expect("eight"));
        let above = own.map(|x| x - mean);
        let scale = fold(above.into_iter().map(|x| x * x).reduce(|a, b| a + b).expect("eight")).rsqrt();
        for (place, above) in places.into_iter().zip(above) {
            y.at(row + place).set(above * scale);
        }
    })
}
