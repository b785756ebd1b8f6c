//! Few bins: each block counts in shared memory, in several copies of each bin.
//!
//! The copies of a bin lie side by side, and each lane counts in one of them: with 32 copies, in a bank that no other lane
//! uses. It is the last rung of the ladder `histogram`.

use warpfold_lang::{Global, Val, dynamic_shared, kernel, lane_id, range, sync_threads, thread_idx, var, when};

use super::{Counting, Value, for_each_value};

/// Adds to counts that are zero before. Takes `copies * (limit + 1)` words of shared memory.
#[must_use]
pub fn copies<T: Value>(block: u32, copies: u32) -> Counting<T> {
    let name = format!("histogram_copies_{}_b{block}_c{copies}", T::NAME);
    let body = move |input: Global<T>, counts: Global<u32>, len: Val<u64>, limit: Val<u32>| {
        // Contract
        assert!(copies.is_power_of_two() && copies <= 32, "a bin has a power of two of copies up to 32, not {copies}");
        // Shared-memory map: the copies of each bin side by side, and of one for the values outside.
        let own = dynamic_shared::<u32>(1);
        // Clear
        let thread = thread_idx().x;
        range(thread, (limit + 1) * copies, block, |i| own.at(i).set(0));
        sync_threads();
        // Count
        let of_lane = own.at(lane_id() % copies);
        for_each_value(block, input, len, |value| of_lane.at(T::bin(value, limit) * copies).reduction().add(1));
        sync_threads();
        // Epilogue: lanes begin with different copies, so that they never meet in a bank.
        range(thread, limit, block, |bin| {
            let count = var(0_u32);
            for n in 0..copies {
                let copy = (lane_id() / (32 / copies) + n) % copies;
                count.add_assign(own.at(bin * copies + copy).get());
            }
            when(count.get().ne(0), || counts.at(bin).reduction().add(count));
        });
    };
    kernel(name, body).required_block(block)
}
