//! Rung 6: every step unrolled.
//! Changed: the block size is known when the kernel is built, so the loop is written out.
//! Removes: the loop's counting, comparing and branching.
//! Measured: see `LADDER` (generated).
//! Limit now: each step goes through shared memory, and waits there.

use warpfold_lang::{Global, Val, block_idx, halving, kernel, shared_named, sync_threads, sync_warp, thread_idx, when};

use super::{PartialSums, check_block};
use crate::LadderElement;

/// Each block leaves the sum of `2 * block` elements.
#[must_use]
pub fn unroll_all<T: LadderElement>(block: u32) -> PartialSums<T> {
    let name = format!("reduce_unroll_all_{}", T::DTYPE);
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
        for stride in halving(block / 2).take_while(|stride| *stride > 32) {
            when(thread.lt(stride), || mine.add_assign(mine.at(stride).get()));
            sync_threads();
        }
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
