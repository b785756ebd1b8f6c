//! Rung 4: many blocks.
//! Changed: block `b` takes the segment of elements from `2 * block * b` on, and adds its sum by an atomic.
//! Removes: the limits of one block.
//! Measured: see `LESSONS` (generated).
//! Limit now: each block pays for its tree, however few elements its threads have.

use warpfold_lang::{Global, Val, block_idx, kernel, shared_named, sync_threads, thread_idx, var, when, while_loop};

use crate::LadderElement;
use crate::reduce::ladder::PartialSums;

/// Blocks of `block` threads add the sums of `2 * block` elements each to a result that was zero.
#[must_use]
pub fn segmented<T: LadderElement>(block: u32) -> PartialSums<T> {
    let name = format!("lesson_segmented_{}", T::DTYPE);
    let body = move |data: Global<T>, result: Global<T>, len: Val<u32>| {
        // Shared-memory map
        let tile = shared_named::<T>("tile", block);
        // Load
        let thread = thread_idx().x;
        let i = block_idx().x * (2 * block) + thread;
        let load = |i: Val<u32>| data.at(i).get_or(T::ZERO, i.lt(len));
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
        when(thread.eq(0), || result.reduction().add(tile.at(0).get()));
    };
    kernel(name, body).required_block(block)
}
