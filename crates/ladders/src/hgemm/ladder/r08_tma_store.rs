//! Rung 8: sums go through shared memory, from where a copy takes them on.
//! Changed: `stmatrix` packs a warpgroup's sums into a tile, and one thread starts its copy.
//! Removes: stores of 4 bytes per lane; the copy runs beside the products of the next tile.
//! Measured: see `LADDER` (generated).
//! Limit now: the order of the tiles, which decides what the L2 still has.

use warpfold_lang::{
    Kernel, Major, Operands, Pipeline, Swizzle, TensorMap, Val, WarpgroupSums, bulk_commit, bulk_wait, bulk_wait_read,
    cluster_block_rank, cluster_idx, cluster_sync, fence_async, kernel, lane_id, num_clusters, range, setmaxnreg_dec,
    setmaxnreg_inc, sync_warpgroup, thread_idx, tiles, warpgroup_idx, wgmma_commit, wgmma_fence, wgmma_wait, when,
    when_else,
};

use super::r05_two_consumers::{BLOCK_K, BLOCK_M, BLOCK_N, THREADS};
use super::r07_multicast::CLUSTER;
use crate::hgemm::block::Half;

const STAGES: u32 = 3;
const CONSUMERS: u32 = 2;

/// Parameters of the kernel: `a`, `b` and `c` with boxes of 64 columns, `m`, `n`, `k`.
pub type TmaStore<T> = Kernel<(TensorMap<T>, TensorMap<T>, TensorMap<T>, u32, u32, u32)>;

/// The kernel.
#[must_use]
pub fn tma_store<T: Half>() -> TmaStore<T> {
    let body = |a: TensorMap<T>, b: TensorMap<T>, c: TensorMap<T>, m: Val<u32>, n: Val<u32>, k: Val<u32>| {
        // Shared-memory map
        let tiles_a = tiles::<T>(STAGES, BLOCK_M, BLOCK_K, Swizzle::Bytes128);
        let tiles_b = tiles::<T>(STAGES, BLOCK_N, BLOCK_K, Swizzle::Bytes128);
        let tiles_c = tiles::<T>(CONSUMERS, 64, BLOCK_N, Swizzle::Bytes128);
        // Barriers
        let pipeline = Pipeline::new(STAGES);
        when(thread_idx().x.eq(0), || pipeline.init(1, 4 * CONSUMERS * CLUSTER));
        cluster_sync();
        // Roles
        let rank = cluster_block_rank();
        let blocks_n = (n + (BLOCK_N - 1)) / BLOCK_N;
        let num_pairs = (m + (CLUSTER * BLOCK_M - 1)) / (CLUSTER * BLOCK_M) * blocks_n;
        let each_tile = |body: &dyn Fn(Val<u32>, Val<u32>)| {
            range(cluster_idx().x, num_pairs, num_clusters().x, |i| {
                body((i / blocks_n * CLUSTER + rank) * BLOCK_M, i % blocks_n * BLOCK_N);
            });
        };
        let warpgroup = warpgroup_idx();
        let at = pipeline.start();
        // Main loop: the producer is one thread
        let produce = || {
            setmaxnreg_dec(24);
            let half = rank * (BLOCK_N / CLUSTER);
            let of_tile = |row: Val<u32>, column: Val<u32>| {
                range(0, k, BLOCK_K, |k0| {
                    pipeline.acquire(at);
                    let (tile_a, tile_b, full) = (tiles_a.at(at.stage()), tiles_b.at(at.stage()), pipeline.full(at));
                    full.arrive_expect(tile_a.bytes() + tile_b.bytes());
                    a.load_tile(tile_a, row, k0, full);
                    let tile_b = tile_b.rows_from(half, BLOCK_N / CLUSTER);
                    b.load_tile_multicast(tile_b, column + half, k0, full, (1 << CLUSTER) - 1);
                    at.advance();
                });
            };
            when(thread_idx().x.eq(0), || each_tile(&of_tile));
        };
        // Main loop: a consumer is a warpgroup with 64 rows
        let consume = || {
            setmaxnreg_inc(240);
            let sums = WarpgroupSums::<T>::new(BLOCK_N);
            let first = (warpgroup - 1) * 64;
            let (tile_c, copies) = (tiles_c.at(warpgroup - 1), (thread_idx().x & 127).eq(0));
            each_tile(&|row, column| {
                range(0, k, BLOCK_K, |k0| {
                    pipeline.wait(at);
                    let (a, b) = (tiles_a.at(at.stage()).rows_from(first, 64), tiles_b.at(at.stage()));
                    wgmma_fence();
                    sums.add_product(&Operands { a, a_major: Major::K, b, b_major: Major::K }, k0.ne(0));
                    wgmma_commit();
                    wgmma_wait(0);
                    // Both blocks write this stage next.
                    when(lane_id().lt(CLUSTER), || pipeline.empty(at).arrive_at(lane_id()));
                    at.advance();
                });
                // Epilogue
                when(copies, || bulk_wait_read(0));
                sync_warpgroup();
                sums.store(tile_c);
                fence_async();
                sync_warpgroup();
                when(copies, || {
                    c.store_tile(tile_c, row + first, column);
                    bulk_commit();
                });
            });
            when(copies, || bulk_wait(0));
        };
        when_else(warpgroup.eq(0), produce, consume);
        // No block leaves while the other may still write to it.
        cluster_sync();
    };
    kernel(format!("hgemm_tma_store_{}", T::NAME), body).required_block(THREADS).min_blocks(1).cluster(CLUSTER)
}
