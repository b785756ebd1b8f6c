//! Rung 4: a block folds 256 elements.
//! Changed: each warp folds its 32, leaves one word of shared memory, and the first warp folds the words of all.
//! Removes: the width of a warp as the limit.
//! Measured: see `LADDER` (generated).
//! Limit now: seven warps wait or leave while the first one folds eight words; `reduce` goes on from here.

use warpfold_lang::{
    Global, Val, block_idx, halving, kernel, lane_id, shared_named, shfl_down, sync_threads, thread_idx, warp_id, when,
};

use super::{BLOCK, Fold, Groups};
use crate::LadderElement;

/// Each block leaves the fold of 256 elements.
#[must_use]
pub fn block_reduce<T: LadderElement>(fold: Fold) -> Groups<T> {
    let name = format!("block_reduce_{}_{}", fold.name(), T::DTYPE);
    let body = move |input: Global<T>, results: Global<T>, len: Val<u32>| {
        // Shared-memory map
        let of_warps = shared_named::<T>("of_warps", BLOCK / 32);
        // Load
        let i = block_idx().x * BLOCK + thread_idx().x;
        let mut acc = input.at(i).get_or(fold.identity::<T>(), i.lt(len));
        // Fold
        for stride in halving(16) {
            acc = fold.combine(acc, shfl_down(acc, stride));
        }
        when(lane_id().eq(0), || of_warps.at(warp_id()).set(acc));
        sync_threads();
        when(warp_id().eq(0), || {
            let mut acc = of_warps.at(lane_id() % (BLOCK / 32)).get();
            for stride in halving(BLOCK / 64) {
                acc = fold.combine(acc, shfl_down(acc, stride));
            }
            // Epilogue
            when(thread_idx().x.eq(0) & i.lt(len), || results.at(block_idx().x).set(acc));
        });
    };
    kernel(name, body).required_block(BLOCK)
}
