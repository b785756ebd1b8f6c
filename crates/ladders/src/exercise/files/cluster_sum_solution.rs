//! cluster-sum: each warp stores its sum in the first block, which adds them up.

use warpfold_lang::{
    Global, Kernel, Val, block_idx, cluster_block_rank, cluster_sync, kernel, lane_id, shared, shfl_xor, thread_idx,
    warp_id, when,
};

/// Blocks of the grid.
pub const GRID: [u32; 3] = [4, 1, 1];
/// Threads of a block.
pub const BLOCK: [u32; 3] = [256, 1, 1];

/// The kernel.
pub fn solution() -> Kernel<(Global<f32>, Global<f32>, u32)> {
    kernel("cluster_sum", |x: Global<f32>, y: Global<f32>, _n: Val<u32>| {
        let parts = shared::<f32>(4 * 8);
        let mut sum = x.at(block_idx().x * 256 + thread_idx().x).get();
        for bits in [16, 8, 4, 2, 1] {
            sum = sum + shfl_xor(sum, bits);
        }
        cluster_sync();
        when(lane_id().eq(0), || parts.in_block(0).at(cluster_block_rank() * 8 + warp_id()).set(sum));
        cluster_sync();
        when(thread_idx().x.eq(0) & cluster_block_rank().eq(0), || {
            y.set((0..32).map(|part| parts.at(part).get()).reduce(|a, b| a + b).expect("32"));
        });
    })
    .cluster(4)
}
