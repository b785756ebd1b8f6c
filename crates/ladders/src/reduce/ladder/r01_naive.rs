//! Rung 1: a tree with its strides doubling.
//! Changed: nothing before it; this is the tree as one draws it.
//! Removes: nothing.
//! Measured: see `LADDER` (generated).
//! Limit now: in each step the threads at work lie apart, so that every warp runs for a few lanes; and a remainder.

use warpfold_lang::{Global, Val, block_idx, kernel, shared_named, sync_threads, thread_idx, var, when, while_loop};

use super::{PartialSums, check_block};
use crate::LadderElement;

/// Each block leaves the sum of `block` elements.
#[must_use]
pub fn naive<T: LadderElement>(block: u32) -> PartialSums<T> {
    let name = format!("reduce_naive_{}", T::DTYPE);
    let body = move |input: Global<T>, sums: Global<T>, len: Val<u32>| {
        // Contract
        check_block(block);
        // Shared-memory map
        let tile = shared_named::<T>("tile", block);
        // Load
        let thread = thread_idx().x;
        let i = block_idx().x * block + thread;
        let mine = tile.at(thread);
        mine.set(input.at(i).get_or(T::ZERO, i.lt(len)));
        sync_threads();
        // Main loop
        let stride = var(1_u32);
        while_loop(
            || stride.get().lt(block),
            || {
                let near = stride.get();
                let far = near * 2;
                when((thread % far).eq(0), || mine.add_assign(mine.at(near).get()));
                sync_threads();
                stride.set(far);
            },
        );
        // Epilogue
        when(thread.eq(0), || sums.at(block_idx().x).set(tile.at(0).get()));
    };
    kernel(name, body).required_block(block)
}
