//! Rung 5: a block of 128 x 256 with two warpgroups that multiply, 64 rows each.
//! Changed: a second consumer shares the tile of b, and the producer gives its registers to both.
//! Removes: a quarter of the bytes that each product needs, and the gaps when one warpgroup waits.
//! Measured: see `LADDER` (generated).
//! Limit now: a block starts with an empty ring and ends with its stores, and nothing runs beside either.

use warpfold_lang::{
    Global, Major, Operands, Pipeline, Swizzle, TensorMap, Val, WarpgroupSums, block_idx, kernel, lane_id, range,
    setmaxnreg_dec, setmaxnreg_inc, sync_threads, thread_idx, tiles, warpgroup_idx, wgmma_commit, wgmma_fence,
    wgmma_wait, when, when_else,
};

use super::r02_wgmma_tma::WgmmaTma;
use crate::hgemm::block::{Half, Part};

pub(super) const BLOCK_M: u32 = 128;
pub(super) const BLOCK_N: u32 = 256;
pub(super) const BLOCK_K: u32 = 64;
const STAGES: u32 = 4;
const CONSUMERS: u32 = 2;
pub(super) const THREADS: u32 = 128 * (1 + CONSUMERS);

/// The kernel.
#[must_use]
pub fn two_consumers<T: Half>() -> WgmmaTma<T> {
    let body = |a: TensorMap<T>, b: TensorMap<T>, c: Global<T>, m: Val<u32>, n: Val<u32>, k: Val<u32>| {
        // Shared-memory map
        let tiles_a = tiles::<T>(STAGES, BLOCK_M, BLOCK_K, Swizzle::Bytes128);
        let tiles_b = tiles::<T>(STAGES, BLOCK_N, BLOCK_K, Swizzle::Bytes128);
        // Barriers
        let pipeline = Pipeline::new(STAGES);
        when(thread_idx().x.eq(0), || pipeline.init(1, 4 * CONSUMERS));
        sync_threads();
        // Roles
        let (row, column) = (block_idx().y * BLOCK_M, block_idx().x * BLOCK_N);
        let warpgroup = warpgroup_idx();
        let at = pipeline.start();
        // Main loop: the producer is one thread
        let produce = || {
            setmaxnreg_dec(24);
            when(thread_idx().x.eq(0), || {
                range(0, k, BLOCK_K, |k0| {
                    pipeline.acquire(at);
                    let (tile_a, tile_b, full) = (tiles_a.at(at.stage()), tiles_b.at(at.stage()), pipeline.full(at));
                    full.arrive_expect(tile_a.bytes() + tile_b.bytes());
                    a.load_tile(tile_a, row, k0, full);
                    b.load_tile(tile_b, column, k0, full);
                    at.advance();
                });
            });
        };
        // Main loop: a consumer is a warpgroup with 64 rows
        let consume = || {
            setmaxnreg_inc(240);
            let sums = WarpgroupSums::<T>::new(BLOCK_N);
            let first = (warpgroup - 1) * 64;
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
        };
        when_else(warpgroup.eq(0), produce, consume);
    };
    kernel(format!("hgemm_two_consumers_{}", T::NAME), body).required_block(THREADS).min_blocks(1)
}
