//! Many bins: one atomic on global memory per value.

use warpfold_lang::{Global, Val, kernel, when};

use super::{Counting, Value, for_each_value};

/// Adds to counts that are zero before.
#[must_use]
pub(crate) fn global<T: Value>(block: u32) -> Counting<T> {
    let name = format!("histogram_global_{}_b{block}", T::NAME);
    let body = move |input: Global<T>, counts: Global<u32>, len: Val<u64>, limit: Val<u32>| {
        for_each_value(block, input, len, |value| {
            let bin = T::bin(value, limit);
            when(bin.lt(limit), || counts.at(bin).reduction().add(1));
        });
    };
    kernel(name, body).required_block(block)
}
