//! norm: a block per row, which reads its row twice.

use warpfold_lang::{
    Global, Kernel, Shared, Val, block_idx, kernel, lane_id, range, shared, shfl_xor, sync_threads, thread_idx, var,
    warp_id, when,
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
        let squares = var(0.0_f32);
        range(thread_idx().x, n, 256, |i| squares.add_assign(x.at(row + i).get() * x.at(row + i).get()));
        let scale = (sum_of_block(parts, squares.get()) / n.cast::<f32>()).rsqrt();
        range(thread_idx().x, n, 256, |i| y.at(row + i).set(x.at(row + i).get() * scale));
    })
}
