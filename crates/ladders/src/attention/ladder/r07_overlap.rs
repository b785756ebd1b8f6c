//! Rung 7: exponentials under the next product.
//! Changed: a warpgroup starts the scores of a tile before it adds the values of the one before, and takes exponentials meanwhile.
//! Removes: the rest of the tensor cores while their warpgroup takes exponentials.
//! Measured: see `LADDER` (generated).
//! Limit now: both warpgroups may come to their exponentials at the same time, and then to their products.

use warpfold_lang::{
    Array, Global, TensorMap, block_idx, kernel, range, setmaxnreg_dec, setmaxnreg_inc, sync_threads, thread_idx,
    warpgroup_idx, wgmma_wait, when, when_else,
};

use super::OfMaps;
use super::r06_warp_specialized::{BLOCK_M, BLOCK_N, CONSUMERS, THREADS};
use crate::attention::tiles::Ring;
use crate::attention::warpgroup::WarpgroupRows;
use crate::attention::work::{WORDS, Work};
use crate::hgemm::Half;

const STAGES: u32 = 2;

/// The kernel.
#[must_use]
pub fn overlap<T: Half>(dim: u32) -> OfMaps<T> {
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
        let (at_q, at, at_v, warpgroup) = (queries.start(), keys.start(), values.start(), warpgroup_idx());
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
            rows.start_scores(tile_q, keys.wait(at));
            wgmma_wait(0);
            keys.release(at);
            at.advance();
            rows.rescale(rows.push(0.into()));
            range(BLOCK_N, end, BLOCK_N, |first| {
                rows.start_scores(tile_q, keys.wait(at));
                rows.start_values(values.wait(at_v));
                wgmma_wait(1);
                keys.release(at);
                at.advance();
                let factors = rows.push(first);
                wgmma_wait(0);
                values.release(at_v);
                at_v.advance();
                rows.rescale(factors);
            });
            rows.start_values(values.wait(at_v));
            wgmma_wait(0);
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
    kernel(format!("attention_overlap_{}_{dim}", T::NAME), body).required_block(THREADS).min_blocks(1)
}
