//! Rung 2: loads of 16 bytes.
//! Changed: each thread takes four neighbouring values at once; up to three are left over for the first threads.
//! Removes: three of four load instructions, and three of four blocks.
//! Measured: see `LADDER` (generated).
//! Limit now: as before, the counts: there is still an atomic on global memory for each value.

use warpfold_kernels::histogram::Value;
use warpfold_lang::{Global, Val, block_idx, kernel, thread_idx, when};

use super::Counting;

/// Adds to counts that are zero before.
#[must_use]
pub fn vec4<T: Value>(block: u32) -> Counting<T> {
    let name = format!("histogram_vec4_{}", T::NAME);
    let body = move |input: Global<T>, counts: Global<u32>, len: Val<u64>, limit: Val<u32>| {
        let count = |value: Val<T>| {
            let bin = T::bin(value, limit);
            when(bin.lt(limit), || counts.at(bin).reduction().add(1));
        };
        // Load
        let i = block_idx().x.cast::<u64>() * u64::from(block) + thread_idx().x.cast::<u64>();
        let num_vectors = len / u64::from(T::VECTOR);
        when(i.lt(num_vectors), || {
            let values = T::load_vector(input.at(i * u64::from(T::VECTOR)));
            // Count
            values.into_iter().for_each(count);
        });
        let rest = num_vectors * u64::from(T::VECTOR) + i;
        when(rest.lt(len), || count(input.at(rest).get()));
    };
    kernel(name, body).required_block(block)
}
