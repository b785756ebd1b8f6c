//! Rung 5: four warps multiply together, from shared memory, where TMA brings tiles.
//! Changed: `wgmma` reads keys and values from shared memory, and weights in registers; one thread issues the copies.
//! Removes: the fragments of keys and values, which every warp loaded for itself, and the addresses of copies.
//! Measured: see `LADDER` (generated).
//! Limit now: the tensor cores wait while a tile is copied, but for what other blocks have to do.

use warpfold_lang::{Array, Global, TensorMap, block_idx, kernel, range, sync_threads, thread_idx, wgmma_wait, when};

use super::OfMaps;
use crate::attention::tiles::Ring;
use crate::attention::warpgroup::WarpgroupRows;
use crate::attention::work::{WORDS, Work};
use crate::hgemm::Half;

/// Rows of a block, and keys of a tile.
pub(super) const BLOCK_M: u32 = 64;
pub(super) const BLOCK_N: u32 = 64;
pub(super) const THREADS: u32 = 128;

/// The kernel.
#[must_use]
pub fn wgmma<T: Half>(dim: u32) -> OfMaps<T> {
    let body = move |q: TensorMap<T>, k: TensorMap<T>, v: TensorMap<T>, o: Global<T>, sizes: Array<u32, WORDS>| {
        // Shared-memory map
        let [queries, keys, values] = [BLOCK_M, BLOCK_N, BLOCK_N].map(|rows| Ring::<T>::new(1, rows, dim));
        // Barriers
        let copies = thread_idx().x.eq(0);
        when(copies, || [queries, keys, values].into_iter().for_each(|ring| ring.init(4)));
        sync_threads();
        // Roles
        let (work, head, row) = (Work::of(sizes, dim), block_idx().y, block_idx().x * BLOCK_M);
        let (kv_head, end) = (work.kv_head(head), work.seen(row + (BLOCK_M - 1)));
        let (at_q, at) = (queries.start(), keys.start());
        // Main loop: a warpgroup with 64 rows
        let consume = || {
            when(copies, || queries.load(at_q, q, [row, head]));
            let rows = WarpgroupRows::<T>::new(work, row, BLOCK_N);
            let tile_q = queries.wait(at_q);
            range(0, end, BLOCK_N, |first| {
                when(copies, || {
                    keys.fill(at, k, [first, kv_head]);
                    values.fill(at, v, [first, kv_head]);
                });
                rows.start_scores(tile_q, keys.wait(at));
                wgmma_wait(0);
                keys.release(at);
                rows.rescale(rows.push(first));
                rows.start_values(values.wait(at));
                wgmma_wait(0);
                values.release(at);
                at.advance();
            });
            // Epilogue
            rows.store(work.head(o, head));
        };
        consume();
    };
    kernel(format!("attention_wgmma_{}_{dim}", T::NAME), body).required_block(THREADS).min_blocks(1)
}
