//! Rung 4: the first addition while loading.
//! Changed: a block takes `2 * block` elements; each thread loads two of them and adds.
//! Removes: threads that only load, half of the blocks, and half of the barriers with them.
//! Measured: see `LADDER` (generated).
//! Limit now: when one warp is left, the others still come to its barriers.

use warpfold_lang::{Global, Val, block_idx, kernel, shared_named, sync_threads, thread_idx, var, when, while_loop};

use super::{PartialSums, check_block};
use crate::LadderElement;

/// Each block leaves the sum of `2 * block` elements.
#[must_use]
pub fn first_add<T: LadderElement>(block: u32) -> PartialSums<T> {
    let name = format!("reduce_first_add_{}", T::DTYPE);
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
            || stride.get().gt(0),
            || {
                let near = stride.get();
                when(thread.lt(near), || mine.add_assign(mine.at(near).get()));
                sync_threads();
                stride.set(near >> 1);
            },
        );
        // Epilogue
        when(thread.eq(0), || sums.at(block_idx().x).set(tile.at(0).get()));
    };
    kernel(name, body).required_block(block)
}
