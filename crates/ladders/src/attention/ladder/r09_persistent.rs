//! Rung 9: as many blocks as run at once, which draw tiles of rows, the longest first.
//! Changed: producer and consumers go through the tiles that their block draws, and the rings never empty.
//! Removes: the start of a block for every tile, and blocks that still work when the others have ended.
//! Measured: see `LADDER` (generated).
//! Limit now: exponentials, and the power that tensor cores may draw.

use warpfold_lang::{
    Array, Global, Kernel, NamedBarriers, TensorMap, TileCounter, Val, kernel, range, setmaxnreg_dec, setmaxnreg_inc,
    sync_threads, thread_idx, warpgroup_idx, wgmma_wait, when, when_else,
};

use super::r06_warp_specialized::{BLOCK_M, BLOCK_N, CONSUMERS, THREADS};
use crate::attention::tiles::Ring;
use crate::attention::warpgroup::WarpgroupRows;
use crate::attention::work::{WORDS, Work};
use crate::hgemm::Half;

const STAGES: u32 = 2;

/// Parameters of the kernel: those of [`OfMaps`](super::OfMaps), and a counter that is zero before
/// and after.
pub type Drawn<T> = Kernel<(TensorMap<T>, TensorMap<T>, TensorMap<T>, Global<T>, Global<u32>, [u32; WORDS])>;

/// The kernel.
#[must_use]
pub fn persistent<T: Half>(dim: u32) -> Drawn<T> {
    let body = move |q: TensorMap<T>,
                     k: TensorMap<T>,
                     v: TensorMap<T>,
                     o: Global<T>,
                     counter: Global<u32>,
                     sizes: Array<u32, WORDS>| {
        // Shared-memory map
        let queries = Ring::<T>::new(CONSUMERS, 64, dim);
        let [keys, values] = [(); 2].map(|()| Ring::<T>::new(STAGES, BLOCK_N, dim));
        // Barriers
        let copies = thread_idx().x.eq(0);
        let work = Work::of(sizes, dim);
        let num_blocks = work.tokens().div_ceil(BLOCK_M);
        let drawn = TileCounter::new(counter, num_blocks * work.heads());
        when(copies, || [(queries, 4), (keys, 8), (values, 8)].into_iter().for_each(|(ring, warps)| ring.init(warps)));
        when(copies, || drawn.init(128 * CONSUMERS));
        sync_threads();
        // Roles
        let place = |tile: Val<u32>| {
            // With a mask, the last rows see the most keys.
            let (head, row) = (tile % work.heads(), (num_blocks - 1 - tile / work.heads()) * BLOCK_M);
            (head, row, work.kv_head(head), work.seen(row + (BLOCK_M - 1)))
        };
        let (at_q, at, at_v, warpgroup) = (queries.start(), keys.start(), values.start(), warpgroup_idx());
        let turns = NamedBarriers { first: 4, num: CONSUMERS, threads: 128 * CONSUMERS };
        // Main loop: the producer is one thread
        let produce = |tile: Val<u32>| {
            let (head, row, kv_head, end) = place(tile);
            for consumer in 0..CONSUMERS {
                queries.fill(at_q, q, [row + 64 * consumer, head]);
                at_q.advance();
            }
            range(0, end, BLOCK_N, |first| {
                keys.fill(at, k, [first, kv_head]);
                values.fill(at, v, [first, kv_head]);
                at.advance();
            });
        };
        // Main loop: a consumer is a warpgroup with 64 rows
        let consume = |tile: Val<u32>| {
            let (head, row, _, end) = place(tile);
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
            queries.release(at_q);
            (0..CONSUMERS).for_each(|_| at_q.advance());
            rows.start_values(values.wait(at_v));
            wgmma_wait(0);
            values.release(at_v);
            at_v.advance();
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
            drawn.consume(consume);
        };
        let producer = || {
            setmaxnreg_dec(24);
            when(copies, || drawn.produce(produce));
        };
        when_else(warpgroup.eq(0), producer, consumer);
    };
    kernel(format!("attention_persistent_{}_{dim}", T::NAME), body).required_block(THREADS).min_blocks(1)
}
