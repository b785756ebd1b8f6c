//! Rung 3: the first addition into shared memory.
//! Changed: each thread loads two elements, adds them, and the tree runs in shared memory.
//! Removes: all traffic with global memory but reading the input once and writing the result.
//! Measured: see `LESSONS` (generated).
//! Limit now: one block, and so one multiprocessor and 2,048 elements.

use warpfold_lang::{Global, Val, kernel, shared_named, sync_threads, thread_idx, var, when, while_loop};

use crate::LadderElement;
use crate::reduce::ladder::PartialSums;

/// One block of `block` threads sums up to `2 * block` elements.
#[must_use]
pub fn shared<T: LadderElement>(block: u32) -> PartialSums<T> {
    let name = format!("lesson_shared_{}", T::DTYPE);
    let body = move |data: Global<T>, result: Global<T>, len: Val<u32>| {
        // Shared-memory map
        let tile = shared_named::<T>("tile", block);
        // Load
        let thread = thread_idx().x;
        let load = |i: Val<u32>| data.at(i).get_or(T::ZERO, i.lt(len));
        let mine = tile.at(thread);
        mine.set(load(thread) + load(thread + block));
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
        when(thread.eq(0), || result.set(tile.at(0).get()));
    };
    kernel(name, body).required_block(block)
}
