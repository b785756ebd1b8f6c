//! Rung 1: one element per thread.
//! Changed: nothing before it; this is the formula.
//! Removes: nothing.
//! Measured: see `SIGMOID` (generated).
//! Limit now: below -88 the exponential is infinite and the result 0; a thread has one load of one element in flight.

use warpfold_lang::{Global, Val, block_dim, block_idx, kernel, thread_idx, when};

use super::super::Activation;
use crate::row::RowElement;

/// Each thread takes one element.
#[must_use]
pub fn plain<T: RowElement>() -> Activation<T> {
    let name = format!("sigmoid_plain_{}", T::DTYPE);
    kernel(name, |input: Global<T>, output: Global<T>, len: Val<u32>| {
        let i = block_idx().x * block_dim().x + thread_idx().x;
        when(i.lt(len), || {
            let x: Val<f32> = input.at(i).get().cast();
            output.at(i).set((((-x).exp() + 1.0).recip()).cast::<T>());
        });
    })
}
