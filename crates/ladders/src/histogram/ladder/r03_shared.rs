//! Rung 3: counts of each block's own.
//! Changed: a grid of fixed size walks over the values; a block counts in shared memory, and adds its counts at the end.
//! Removes: nearly all atomics on global memory. A bin for the values outside takes the place of a branch.
//! Measured: see `LADDER` (generated).
//! Limit now: the lanes of a warp still have bank conflicts, all of them where values are equal.

use warpfold_kernels::histogram::{Value, for_each_value};
use warpfold_lang::{Global, Val, dynamic_shared, kernel, range, sync_threads, thread_idx, when};

use super::Counting;

/// Adds to counts that are zero before. Takes `limit + 1` words of shared memory.
#[must_use]
pub fn shared<T: Value>(block: u32) -> Counting<T> {
    let name = format!("histogram_shared_{}", T::NAME);
    let body = move |input: Global<T>, counts: Global<u32>, len: Val<u64>, limit: Val<u32>| {
        // Shared-memory map: a word for each bin, and one for the values outside.
        let own = dynamic_shared::<u32>(1);
        // Clear
        let thread = thread_idx().x;
        range(thread, limit + 1, block, |i| own.at(i).set(0));
        sync_threads();
        // Count
        for_each_value(block, input, len, |value| own.at(T::bin(value, limit)).reduction().add(1));
        sync_threads();
        // Epilogue
        range(thread, limit, block, |bin| {
            let count = own.at(bin).get();
            when(count.ne(0), || counts.at(bin).reduction().add(count));
        });
    };
    kernel(name, body).required_block(block)
}
