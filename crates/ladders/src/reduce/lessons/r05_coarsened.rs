//! Rung 5: thread coarsening.
//! Changed: a block takes a segment `factor` times as long; each thread adds its share before any cooperation.
//! Removes: trees, barriers and atomics of the blocks that are no longer needed.
//! Measured: see `LESSONS` (generated).
//! Limit now: what the ladder `reduce` goes on to remove.

use warpfold_lang::{Global, Val, block_idx, kernel, shared_named, sync_threads, thread_idx, var, when, while_loop};

use crate::LadderElement;
use crate::reduce::ladder::PartialSums;

/// Blocks of `block` threads add the sums of `factor * 2 * block` elements each to a result that was zero.
#[must_use]
pub fn coarsened<T: LadderElement>(block: u32, factor: u32) -> PartialSums<T> {
    let name = format!("lesson_coarsened_{factor}_{}", T::DTYPE);
    let body = move |data: Global<T>, result: Global<T>, len: Val<u32>| {
        // Shared-memory map
        let tile = shared_named::<T>("tile", block);
        // Load
        let thread = thread_idx().x;
        let i = block_idx().x * (factor * 2 * block) + thread;
        let load = |i: Val<u32>| data.at(i).get_or(T::ZERO, i.lt(len));
        let mut sum = load(i);
        for share in 1..factor * 2 {
            sum += load(i + share * block);
        }
        let mine = tile.at(thread);
        mine.set(sum);
        sync_threads();
        // Main loop
        let stride = var(block / 2);
        while_loop(
            || stride.get().gt(0),
            || {
                let near = stride.get();
                when(thread.lt(near), || mine.add_assign(mine.at(near).get()));
                sync_threads();
                stride.set(near >> 1);
            },
        );
        // Epilogue
        when(thread.eq(0), || result.reduction().add(tile.at(0).get()));
    };
    kernel(name, body).required_block(block)
}
