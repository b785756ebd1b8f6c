//! Rung 2: the threads at work side by side.
//! Changed: thread `t` keeps element `t`, and the strides halve.
//! Removes: divergence, until less than a warp is at work.
//! Measured: see `LESSONS` (generated).
//! Limit now: each step goes through global memory.

use warpfold_lang::{Global, Val, kernel, sync_threads, thread_idx, var, when, while_loop};

use crate::LadderElement;
use crate::reduce::ladder::PartialSums;

/// One block of `block` threads sums up to `2 * block` elements, and overwrites them.
#[must_use]
pub fn no_divergence<T: LadderElement>(block: u32) -> PartialSums<T> {
    let name = format!("lesson_no_divergence_{}", T::DTYPE);
    let body = move |data: Global<T>, result: Global<T>, len: Val<u32>| {
        let thread = thread_idx().x;
        let mine = data.at(thread);
        // Main loop
        let stride = var(block);
        while_loop(
            || stride.get().gt(0),
            || {
                let near = stride.get();
                let is_left = thread.lt(near) & (thread + near).lt(len);
                when(is_left, || mine.add_assign(mine.at(near).get()));
                sync_threads();
                stride.set(near >> 1);
            },
        );
        // Epilogue
        when(thread.eq(0), || result.set(data.get_or(T::ZERO, len.gt(0))));
    };
    kernel(name, body).required_block(block)
}
