//! Rung 3: one element per thread.
//! Changed: as many blocks as the elements need; the loop becomes a bound check.
//! Removes: idle multiprocessors, and the loop's counting.
//! Measured: see `LADDER` (generated).
//! Limit now: a thread has one load of 4 bytes from each input in flight, and an address and a branch to each.

use warpfold_lang::{Global, Val, block_dim, block_idx, kernel, thread_idx, when};

use super::VectorAdd;
use crate::LadderElement;

/// Each thread adds one element.
#[must_use]
pub fn grid<T: LadderElement>() -> VectorAdd<T> {
    let name = format!("vector_add_grid_{}", T::DTYPE);
    kernel(name, |a: Global<T>, b: Global<T>, sum: Global<T>, len: Val<u32>| {
        let i = block_idx().x * block_dim().x + thread_idx().x;
        when(i.lt(len), || sum.at(i).set(a.at(i).get() + b.at(i).get()));
    })
}
