//! Rung 6: one thread copies ahead as far as tiles are empty, two warpgroups multiply what is there.
//! Changed: a warpgroup of its own starts the copies; a block has 128 rows, 64 for each consumer, and tiles of 128 keys.
//! Removes: waits for copies, and half of the bytes that a row needs.
//! Measured: see `LADDER` (generated).
//! Limit now: a warpgroup's products wait for its exponentials, and exponentials for products.

use warpfold_lang::{
    Array, Global, TensorMap, block_idx, kernel, range, setmaxnreg_dec, setmaxnreg_inc, sync_threads, thread_idx,
    warpgroup_idx, wgmma_wait, when, when_else,
};

use super::OfMaps;
use crate::attention::tiles::Ring;
use crate::attention::warpgroup::WarpgroupRows;
use crate::attention::work::{WORDS, Work};
use crate::hgemm::Half;

/// Rows of a block, and keys of a tile.
pub(super) const BLOCK_M: u32 = 64 * CONSUMERS;
pub(super) const BLOCK_N: u32 = 128;
const STAGES: u32 = 2;
pub(super) const CONSUMERS: u32 = 2;
pub(super) const THREADS: u32 = 128 * (1 + CONSUMERS);

/// The kernel.
#[must_use]
pub fn warp_specialized<T: Half>(dim: u32) -> OfMaps<T> {
    let body = move |q: TensorMap<T>, k: TensorMap<T>, v: TensorMap<T>, o: Global<T>, sizes: Array<u32, WORDS>| {
        // Shared-memory map
        let queries = Ring::<T>::new(CONSUMERS, 64, dim);
        let [keys, values] = [(); 2].map(|()| Ring::<T>::new(STAGES, BLOCK_N, dim));
        // Barriers
        let copies = thread_idx().x.eq(0);
        when(copies, || [(queries, 4), (keys, 8), (values, 8)].into_iter().for_each(|(ring, warps)| ring.init(warps)));
        sync_threads();
        // Roles
        let (work, head, row) = (Work::of(sizes, dim), block_idx().y, block_idx().x * BLOCK_M);
        let (kv_head, end) = (work.kv_head(head), work.seen(row + (BLOCK_M - 1)));
        let (at_q, at, warpgroup) = (queries.start(), keys.start(), warpgroup_idx());
        // Main loop: the producer is one thread
        let produce = || {
            for consumer in 0..CONSUMERS {
                queries.load(at_q, q, [row + 64 * consumer, head]);
                at_q.advance();
            }
            range(0, end, BLOCK_N, |first| {
                keys.fill(at, k, [first, kv_head]);
                values.fill(at, v, [first, kv_head]);
                at.advance();
            });
        };
        // Main loop: a consumer is a warpgroup with 64 rows
        let consume = || {
            let rows = WarpgroupRows::<T>::new(work, row + (warpgroup - 1) * 64, BLOCK_N);
            let tile_q = queries.wait(at_q);
            range(0, end, BLOCK_N, |first| {
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
        let consumer = || {
            setmaxnreg_inc(240);
            when(warpgroup.eq(2), || at_q.advance());
            consume();
        };
        let producer = || {
            setmaxnreg_dec(24);
            when(copies, produce);
        };
        when_else(warpgroup.eq(0), producer, consumer);
    };
    kernel(format!("attention_warp_specialized_{}_{dim}", T::NAME), body).required_block(THREADS).min_blocks(1)
}
