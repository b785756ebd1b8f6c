//! Rung 5: no block barrier inside the last warp.
//! Changed: the loop ends when one warp is left, which goes on alone, its lanes ordered by warp barriers.
//! Removes: six of the block's barriers, and the other warps' way to them.
//! Measured: see `LADDER` (generated).
//! Limit now: the loop that is left counts, compares and branches for two steps of work.
//!
//! NOTE: without the warp barriers this works only where a warp's lanes run in lockstep, which no GPU since Volta
//! promises.

use warpfold_lang::{
    Global, Val, block_idx, halving, kernel, shared_named, sync_threads, sync_warp, thread_idx, var, when, while_loop,
};

use super::{PartialSums, check_block};
use crate::LadderElement;

/// Each block leaves the sum of `2 * block` elements.
#[must_use]
pub fn unroll_last_warp<T: LadderElement>(block: u32) -> PartialSums<T> {
    let name = format!("reduce_unroll_last_warp_{}", T::DTYPE);
    let body = move |input: Global<T>, sums: Global<T>, len: Val<u32>| {
        // Contract
        check_block(block);
        // Shared-memory map
        let tile = shared_named::<T>("tile", block);
        // Load
        let thread = thread_idx().x;
        let i = block_idx().x * (2 * block) + thread;
        let load = |i: Val<u32>| input.at(i).get_or(T::ZERO, i.lt(len));
        let mine = tile.at(thread);
        mine.set(load(i) + load(i + block));
        sync_threads();
        // Main loop
        let stride = var(block / 2);
        while_loop(
            || stride.get().gt(32),
            || {
                let near = stride.get();
                when(thread.lt(near), || mine.add_assign(mine.at(near).get()));
                sync_threads();
                stride.set(near >> 1);
            },
        );
        // Last warp
        when(thread.lt(32), || {
            // Behind the words of a block of one warp there is nothing: its lanes read round.
            let other = |stride| if block > 32 { mine.at(stride) } else { tile.at((thread + stride) % 32) };
            let mut sum = if block > 32 { mine.get() + other(32).get() } else { mine.get() };
            for stride in halving(16) {
                mine.set(sum);
                sync_warp();
                sum += other(stride).get();
                if stride > 1 {
                    sync_warp();
                }
            }
            // Epilogue
            when(thread.eq(0), || sums.at(block_idx().x).set(sum));
        });
    };
    kernel(name, body).required_block(block)
}
