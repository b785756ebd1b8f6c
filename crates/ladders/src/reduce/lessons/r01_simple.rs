//! Rung 1: one block, in place in global memory.
//! Changed: nothing before it; thread `t` keeps element `2 * t` and adds what lies `stride` further on.
//! Removes: nothing.
//! Measured: see `LESSONS` (generated).
//! Limit now: the threads at work lie `stride` apart, so that every warp diverges.

use warpfold_lang::{Global, Val, kernel, sync_threads, thread_idx, var, when, while_loop};

use crate::LadderElement;
use crate::reduce::ladder::PartialSums;

/// One block of `block` threads sums up to `2 * block` elements, and overwrites them.
#[must_use]
pub fn simple<T: LadderElement>(block: u32) -> PartialSums<T> {
    let name = format!("lesson_simple_{}", T::DTYPE);
    let body = move |data: Global<T>, result: Global<T>, len: Val<u32>| {
        let thread = thread_idx().x;
        let mine = data.at(thread * 2);
        // Main loop
        let stride = var(1_u32);
        while_loop(
            || stride.get().le(block),
            || {
                let near = stride.get();
                let is_left = (thread % near).eq(0) & (thread * 2 + near).lt(len);
                when(is_left, || mine.add_assign(mine.at(near).get()));
                sync_threads();
                stride.set(near * 2);
            },
        );
        // Epilogue
        when(thread.eq(0), || result.set(data.get_or(T::ZERO, len.gt(0))));
    };
    kernel(name, body).required_block(block)
}
