//! Rung 1: one atomic a value.
//! Changed: the formula as it stands: each thread adds one to the count of its value.
//! Removes: nothing.
//! Measured: see `LADDER` (generated).
//! Limit now: the counts lie in one place for all, where equal values queue.

use warpfold_kernels::histogram::Value;
use warpfold_lang::{Global, Val, block_idx, kernel, thread_idx, when};

use super::Counting;

/// Adds to counts that are zero before.
#[must_use]
pub fn plain<T: Value>(block: u32) -> Counting<T> {
    let name = format!("histogram_plain_{}", T::NAME);
    let body = move |input: Global<T>, counts: Global<u32>, len: Val<u64>, limit: Val<u32>| {
        // Load
        let i = block_idx().x.cast::<u64>() * u64::from(block) + thread_idx().x.cast::<u64>();
        when(i.lt(len), || {
            let bin = T::bin(input.at(i).get(), limit);
            // Count
            when(bin.lt(limit), || counts.at(bin).reduction().add(1));
        });
    };
    kernel(name, body).required_block(block)
}
