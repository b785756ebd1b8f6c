//! softmax: four elements per thread stay in registers; lanes beyond the row hold what changes nothing.

use warpfold_lang::{
    Global, Kernel, Shared, Val, block_idx, kernel, lane_id, shared, shfl_xor, sync_threads, thread_idx, warp_id, when,
};

fn fold(parts: Shared<f32>, value: Val<f32>, f: impl Fn(Val<f32>, Val<f32>) -> Val<f32>) -> Val<f32> {
    let mut value = value;
    for bits in [16, 8, 4, 2, 1] {
        value = f(value, shfl_xor(value, bits));
    }
    sync_threads();
    when(lane_id().eq(0), || parts.at(warp_id()).set(value));
    sync_threads();
    (0..8).map(|warp| parts.at(warp).get()).reduce(f).expect("eight warps")
}

/// Blocks of the grid.
pub const GRID: [u32; 3] = [64, 1, 1];
/// Threads of a block.
pub const BLOCK: [u32; 3] = [256, 1, 1];

/// The kernel.
pub fn solution() -> Kernel<(Global<f32>, Global<f32>, u32)> {
    kernel("softmax", |x: Global<f32>, y: Global<f32>, n: Val<u32>| {
        let (parts, row) = (shared::<f32>(8), block_idx().x * n);
        let places = [0, 256, 512, 768].map(|step| thread_idx().x + step);
        let own = places.map(|i| x.at(row + i).get_or(f32::NEG_INFINITY, i.lt(n)));
        let most = fold(parts, own.into_iter().reduce(|a, b| a.max(b)).expect("four"), |a, b| a.max(b));
        let powers = own.map(|x| (x - most).exp());
        let sum = fold(parts, powers.into_iter().reduce(|a, b| a + b).expect("four"), |a, b| a + b);
        for (i, power) in places.into_iter().zip(powers) {
            y.at(row + i).set_if(power / sum, i.lt(n));
        }
    })
}
