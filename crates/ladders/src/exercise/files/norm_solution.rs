//! norm: four numbers per thread stay in registers from the first pass to the second.

use warpfold_lang::{
    Global, Kernel, Shared, Val, block_idx, kernel, lane_id, shared, shfl_xor, sync_threads, thread_idx, warp_id, when,
};

/// Adds up a value of each of 256 threads, for all of them.
fn sum_of_block(parts: Shared<f32>, value: Val<f32>) -> Val<f32> {
    let mut value = value;
    for bits in [16, 8, 4, 2, 1] {
        value = value + shfl_xor(value, bits);
    }
    when(lane_id().eq(0), || parts.at(warp_id()).set(value));
    sync_threads();
    (0..8).map(|warp| parts.at(warp).get()).reduce(|a, b| a + b).expect("eight warps")
}

/// Blocks of the grid.
pub const GRID: [u32; 3] = [16, 1, 1];
/// Threads of a block.
pub const BLOCK: [u32; 3] = [256, 1, 1];

/// The kernel.
pub fn solution() -> Kernel<(Global<f32>, Global<f32>, u32)> {
    kernel("norm", |x: Global<f32>, y: Global<f32>, n: Val<u32>| {
        let (parts, row) = (shared::<f32>(8), block_idx().x * n);
        let places = [0, 256, 512, 768].map(|step| row + thread_idx().x + step);
        let own = places.map(|place| x.at(place).get());
        let squares = own.into_iter().map(|x| x * x).reduce(|a, b| a + b).expect("four");
        let scale = (sum_of_block(parts, squares) / n.cast::<f32>()).rsqrt();
        for (place, x) in places.into_iter().zip(own) {
            y.at(place).set(x * scale);
        }
    })
}
