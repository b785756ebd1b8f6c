//! Rung 4: one thread copies ahead into a ring of stages, a warpgroup multiplies what is there.
//! Changed: a warpgroup of its own starts the copies, as far ahead as stages are empty.
//! Removes: the wait for copies, and the block's barrier at every step.
//! Measured: see `LADDER` (generated).
//! Limit now: one warpgroup's registers bound the tile, and a block's end waits for its stores.

use warpfold_lang::{
    Global, Major, Operands, Pipeline, Swizzle, TensorMap, Val, WarpgroupSums, block_idx, kernel, lane_id, range,
    sync_threads, thread_idx, tiles, warpgroup_idx, wgmma_commit, wgmma_fence, wgmma_wait, when,
};

use super::r02_wgmma_tma::WgmmaTma;
use crate::hgemm::block::{Half, Part};

pub(super) const BLOCK_M: u32 = 128;
pub(super) const BLOCK_N: u32 = 128;
const BLOCK_K: u32 = 64;
const STAGES: u32 = 5;
pub(super) const THREADS: u32 = 256;

/// The kernel.
#[must_use]
pub fn producer_consumer<T: Half>() -> WgmmaTma<T> {
    let body = |a: TensorMap<T>, b: TensorMap<T>, c: Global<T>, m: Val<u32>, n: Val<u32>, k: Val<u32>| {
        // Shared-memory map
        let tiles_a = tiles::<T>(STAGES, BLOCK_M, BLOCK_K, Swizzle::Bytes128);
        let tiles_b = tiles::<T>(STAGES, BLOCK_N, BLOCK_K, Swizzle::Bytes128);
        // Barriers
        let pipeline = Pipeline::new(STAGES);
        when(thread_idx().x.eq(0), || pipeline.init(1, 4));
        sync_threads();
        // Roles
        let (row, column) = (block_idx().y * BLOCK_M, block_idx().x * BLOCK_N);
        let warpgroup = warpgroup_idx();
        let at = pipeline.start();
        // Main loop: the producer is one thread
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
        // Main loop: the consumer is a warpgroup
        when(warpgroup.eq(1), || {
            let halves = [0, 64].map(|first| (first, WarpgroupSums::<T>::new(BLOCK_N)));
            range(0, k, BLOCK_K, |k0| {
                pipeline.wait(at);
                let (tile_a, tile_b) = (tiles_a.at(at.stage()), tiles_b.at(at.stage()));
                wgmma_fence();
                for (first, sums) in &halves {
                    let a = tile_a.rows_from(*first, 64);
                    sums.add_product(&Operands { a, a_major: Major::K, b: tile_b, b_major: Major::K }, k0.ne(0));
                }
                wgmma_commit();
                wgmma_wait(0);
                when(lane_id().eq(0), || pipeline.empty(at).arrive());
                at.advance();
            });
            // Epilogue
            for (first, sums) in &halves {
                Part { matrix: c, rows: m, columns: n, row: row + *first, column }.store_sums(sums);
            }
        });
    };
    kernel(format!("hgemm_producer_consumer_{}", T::NAME), body).required_block(THREADS).min_blocks(1)
}
