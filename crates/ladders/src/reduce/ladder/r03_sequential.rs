//! Rung 3: the strides halving.
//! Changed: the first `stride` threads add the words `stride` further on.
//! Removes: bank conflicts, as neighbouring threads touch neighbouring words.
//! Measured: see `LADDER` (generated).
//! Limit now: half of the threads load one element and do nothing more.

use warpfold_lang::{Global, Val, block_idx, kernel, shared_named, sync_threads, thread_idx, var, when, while_loop};

use super::{PartialSums, check_block};
use crate::LadderElement;

/// Each block leaves the sum of `block` elements.
#[must_use]
pub fn sequential<T: LadderElement>(block: u32) -> PartialSums<T> {
    let name = format!("reduce_sequential_{}", T::DTYPE);
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
