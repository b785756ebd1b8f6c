//! softmax: a block per row, which reads its row three times.

use warpfold_lang::{
    Global, Kernel, Shared, Val, block_idx, kernel, lane_id, range, shared, shfl_xor, sync_threads, thread_idx, var,
    warp_id, when,
};

/// Folds a value of each of 256 threads, for all of them.
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
        let (parts, thread) = (shared::<f32>(8), thread_idx().x);
        let (x, y) = (x.at(block_idx().x * n), y.at(block_idx().x * n));
        let most = var(f32::NEG_INFINITY);
        range(thread, n, 256, |i| most.update(|most| most.max(x.at(i).get())));
        let most = fold(parts, most.get(), |a, b| a.max(b));
        let sum = var(0.0_f32);
        range(thread, n, 256, |i| sum.add_assign((x.at(i).get() - most).exp()));
        let sum = fold(parts, sum.get(), |a, b| a + b);
        range(thread, n, 256, |i| y.at(i).set((x.at(i).get() - most).exp() / sum));
    })
}
