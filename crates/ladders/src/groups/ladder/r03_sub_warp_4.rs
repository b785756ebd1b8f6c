//! Rung 3: eight groups per warp.
//! Changed: segments have 4 lanes.
//! Removes: two of four shuffles.
//! Measured: see `LADDER` (generated).
//! Limit now: groups are no wider than a warp.

use warpfold_lang::{Global, Lanes, Val, block_dim, block_idx, halving, kernel, lane_id, thread_idx, when};

use super::{Fold, Groups};
use crate::LadderElement;

/// Each group of four lanes leaves the fold of 4 elements.
#[must_use]
pub fn sub_warp_4<T: LadderElement>(fold: Fold) -> Groups<T> {
    let name = format!("sub_warp_4_{}_{}", fold.name(), T::DTYPE);
    kernel(name, move |input: Global<T>, results: Global<T>, len: Val<u32>| {
        // Load
        let i = block_idx().x * block_dim().x + thread_idx().x;
        let mut acc = input.at(i).get_or(fold.identity::<T>(), i.lt(len));
        // Fold
        for stride in halving(2) {
            acc = fold.combine(acc, Lanes::all_lanes().width(4).shfl_down(acc, stride));
        }
        // Epilogue
        when((lane_id() % 4).eq(0) & i.lt(len), || results.at(i / 4).set(acc));
    })
}
