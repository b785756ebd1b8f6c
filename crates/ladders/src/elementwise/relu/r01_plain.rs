//! Rung 1: one element per thread.
//! Changed: nothing before it; a thread loads an element, takes the larger of it and 0, and stores that.
//! Removes: nothing.
//! Measured: see `RELU` (generated).
//! Limit now: a thread has one load of one element in flight, and an address and a bound check for each.

use warpfold_lang::{Global, Val, block_dim, block_idx, kernel, thread_idx, when};

use super::super::Activation;
use crate::row::RowElement;

/// Each thread takes one element.
#[must_use]
pub fn plain<T: RowElement>() -> Activation<T> {
    let name = format!("relu_plain_{}", T::DTYPE);
    kernel(name, |input: Global<T>, output: Global<T>, len: Val<u32>| {
        let i = block_idx().x * block_dim().x + thread_idx().x;
        when(i.lt(len), || output.at(i).set(input.at(i).get().max_nan(T::ZERO)));
    })
}
