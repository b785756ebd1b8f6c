//! Rung 1: a warp folds 32 elements.
//! Changed: nothing before it; lane `i` takes what lane `i + 16` holds, then `i + 8`, 4, 2, 1, and lane 0 has all.
//! Removes: nothing.
//! Measured: see `LADDER` (generated).
//! Limit now: five shuffles of 32 lanes leave one result.

use warpfold_lang::{Global, Val, block_dim, block_idx, halving, kernel, lane_id, shfl_down, thread_idx, when};

use super::{Fold, Groups};
use crate::LadderElement;

/// Each warp leaves the fold of 32 elements.
#[must_use]
pub fn warp_reduce<T: LadderElement>(fold: Fold) -> Groups<T> {
    let name = format!("warp_reduce_{}_{}", fold.name(), T::DTYPE);
    kernel(name, move |input: Global<T>, results: Global<T>, len: Val<u32>| {
        // Load
        let i = block_idx().x * block_dim().x + thread_idx().x;
        let mut acc = input.at(i).get_or(fold.identity::<T>(), i.lt(len));
        // Fold
        for stride in halving(16) {
            acc = fold.combine(acc, shfl_down(acc, stride));
        }
        // Epilogue
        when(lane_id().eq(0) & i.lt(len), || results.at(i / 32).set(acc));
    })
}
