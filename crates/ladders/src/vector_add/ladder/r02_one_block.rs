//! Rung 2: a block-stride loop.
//! Changed: thread `t` of the block takes elements `t`, `t + 256`, `t + 512` …
//! Removes: 31 idle lanes of each instruction; neighbouring lanes read neighbouring words in one request.
//! Measured: see `LADDER` (generated).
//! Limit now: one multiprocessor works, the others idle.

use warpfold_lang::{Global, Val, block_dim, kernel, range, thread_idx};

use super::VectorAdd;
use crate::LadderElement;

/// The threads of one block add all elements.
#[must_use]
pub fn one_block<T: LadderElement>() -> VectorAdd<T> {
    let name = format!("vector_add_one_block_{}", T::DTYPE);
    kernel(name, |a: Global<T>, b: Global<T>, sum: Global<T>, len: Val<u32>| {
        // Main loop
        range(thread_idx().x, len, block_dim().x, |i| sum.at(i).set(a.at(i).get() + b.at(i).get()));
    })
}
