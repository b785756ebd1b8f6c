//! Rung 1: a loop on one thread.
//! Changed: nothing before it; this is the program of a CPU.
//! Removes: nothing.
//! Measured: see `LADDER` (generated).
//! Limit now: one lane of one warp works, and waits for each element.

use warpfold_lang::{Global, Val, kernel, range};

use super::VectorAdd;
use crate::LadderElement;

/// One thread adds all elements.
#[must_use]
pub fn one_thread<T: LadderElement>() -> VectorAdd<T> {
    let name = format!("vector_add_one_thread_{}", T::DTYPE);
    kernel(name, |a: Global<T>, b: Global<T>, sum: Global<T>, len: Val<u32>| {
        // Main loop
        range(0, len, 1, |i| sum.at(i).set(a.at(i).get() + b.at(i).get()));
    })
}
