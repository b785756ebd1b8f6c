//! Rung 8: two warpgroups take turns ("ping-pong").
//! Changed: a warpgroup waits for its turn at a named barrier, starts its products, and gives the turn to the other.
//! Removes: exponentials of both at once, under which the tensor cores rest.
//! Measured: see `LADDER` (generated).
//! Limit now: a block starts with empty rings and ends with its stores; with a mask, some blocks have more to do.

use warpfold_lang::{
    Array, Global, NamedBarriers, TensorMap, Val, block_idx, kernel, range, setmaxnreg_dec, setmaxnreg_inc,
    sync_threads, thread_idx, warpgroup_idx, wgmma_wait, when, when_else,
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
pub fn ping_pong<T: Half>(dim: u32) -> OfMaps<T> {
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
        let turns = NamedBarriers { first: 4, num: CONSUMERS, threads: 128 * CONSUMERS };
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
                turns.sync(warpgroup - 1);
                rows.start_scores(tile_q, keys.wait(at));
                rows.start_values(values.wait(at_v));
                turns.arrive(Val::constant(2) - warpgroup);
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
            when(warpgroup.eq(2), || {
                at_q.advance();
                // The first turn is a gift to the first consumer.
                turns.arrive(0);
            });
            consume();
        };
        let producer = || {
            setmaxnreg_dec(24);
            when(copies, produce);
        };
        when_else(warpgroup.eq(0), producer, consumer);
    };
    kernel(format!("attention_ping_pong_{}_{dim}", T::NAME), body).required_block(THREADS).min_blocks(1)
}
