//! Rung 6: as many blocks as run at once, each of which takes tile after tile.
//! Changed: producer and consumers go through the tiles of their block in the same order, and the ring never empties.
//! Removes: the start of a block for every tile; the next tile is copied while the last one is stored.
//! Measured: see `LADDER` (generated).
//! Limit now: every block brings a tile of b for itself that its neighbours bring as well.

use warpfold_lang::{
    Global, Major, Operands, Pipeline, Swizzle, TensorMap, Val, WarpgroupSums, block_idx, grid_dim, kernel, lane_id,
    range, setmaxnreg_dec, setmaxnreg_inc, sync_threads, thread_idx, tiles, warpgroup_idx, wgmma_commit, wgmma_fence,
    wgmma_wait, when, when_else,
};

use super::r02_wgmma_tma::WgmmaTma;
use super::r05_two_consumers::{BLOCK_K, BLOCK_M, BLOCK_N, THREADS};
use crate::hgemm::block::{Half, Part};

const STAGES: u32 = 4;
const CONSUMERS: u32 = 2;

/// The kernel.
#[must_use]
pub fn persistent<T: Half>() -> WgmmaTma<T> {
    let body = |a: TensorMap<T>, b: TensorMap<T>, c: Global<T>, m: Val<u32>, n: Val<u32>, k: Val<u32>| {
        // Shared-memory map
        let tiles_a = tiles::<T>(STAGES, BLOCK_M, BLOCK_K, Swizzle::Bytes128);
        let tiles_b = tiles::<T>(STAGES, BLOCK_N, BLOCK_K, Swizzle::Bytes128);
        // Barriers
        let pipeline = Pipeline::new(STAGES);
        when(thread_idx().x.eq(0), || pipeline.init(1, 4 * CONSUMERS));
        sync_threads();
        // Roles
        let blocks_n = (n + (BLOCK_N - 1)) / BLOCK_N;
        let num_blocks = (m + (BLOCK_M - 1)) / BLOCK_M * blocks_n;
        let each_tile = |body: &dyn Fn(Val<u32>, Val<u32>)| {
            range(block_idx().x, num_blocks, grid_dim().x, |i| {
                body(i / blocks_n * BLOCK_M, i % blocks_n * BLOCK_N);
            });
        };
        let warpgroup = warpgroup_idx();
        let at = pipeline.start();
        // Main loop: the producer is one thread
        let produce = || {
            setmaxnreg_dec(24);
            let of_tile = |row: Val<u32>, column: Val<u32>| {
                range(0, k, BLOCK_K, |k0| {
                    pipeline.acquire(at);
                    let (tile_a, tile_b, full) = (tiles_a.at(at.stage()), tiles_b.at(at.stage()), pipeline.full(at));
                    full.arrive_expect(tile_a.bytes() + tile_b.bytes());
                    a.load_tile(tile_a, row, k0, full);
                    b.load_tile(tile_b, column, k0, full);
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
            each_tile(&|row, column| {
                range(0, k, BLOCK_K, |k0| {
                    pipeline.wait(at);
                    let (a, b) = (tiles_a.at(at.stage()).rows_from(first, 64), tiles_b.at(at.stage()));
                    wgmma_fence();
                    sums.add_product(&Operands { a, a_major: Major::K, b, b_major: Major::K }, k0.ne(0));
                    wgmma_commit();
                    wgmma_wait(0);
                    when(lane_id().eq(0), || pipeline.empty(at).arrive());
                    at.advance();
                });
                // Epilogue
                Part { matrix: c, rows: m, columns: n, row: row + first, column }.store_sums(&sums);
            });
        };
        when_else(warpgroup.eq(0), produce, consume);
    };
    kernel(format!("hgemm_persistent_{}", T::NAME), body).required_block(THREADS).min_blocks(1)
}
