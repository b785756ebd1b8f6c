//! Rung 2: the threads at work side by side.
//! Changed: thread `t` takes the `t`-th pair of the step, instead of the pair that begins at `t`.
//! Removes: divergence, as whole warps work or rest, and the remainder.
//! Measured: see `LADDER` (generated).
//! Limit now: neighbouring threads meet `2 * stride` words apart, in the same banks of shared memory.

use warpfold_lang::{Global, Val, block_idx, kernel, shared_named, sync_threads, thread_idx, var, when, while_loop};

use super::{PartialSums, check_block};
use crate::LadderElement;

/// Each block leaves the sum of `block` elements.
#[must_use]
pub fn interleaved<T: LadderElement>(block: u32) -> PartialSums<T> {
    let name = format!("reduce_interleaved_{}", T::DTYPE);
    let body = move |input: Global<T>, sums: Global<T>, len: Val<u32>| {
        // Contract
        check_block(block);
        // Shared-memory map
        let tile = shared_named::<T>("tile", block);
        // Load
        let thread = thread_idx().x;
        let i = block_idx().x * block + thread;
        tile.at(thread).set(input.at(i).get_or(T::ZERO, i.lt(len)));
        sync_threads();
        // Main loop
        let stride = var(1_u32);
        while_loop(
            || stride.get().lt(block),
            || {
                let near = stride.get();
                let far = near * 2;
                let left = thread * far;
                when(left.lt(block), || {
                    let mine = tile.at(left);
                    mine.add_assign(mine.at(near).get());
                });
                sync_threads();
                stride.set(far);
            },
        );
        // Epilogue
        when(thread.eq(0), || sums.at(block_idx().x).set(tile.at(0).get()));
    };
    kernel(name, body).required_block(block)
}
