//! Rung 2: both halves of a warp fold by themselves.
//! Changed: shuffles stay within segments of 16 lanes, and the first lane of each leaves a result.
//! Removes: one of five shuffles, where groups are that short.
//! Measured: see `LADDER` (generated).
//! Limit now: as many shuffles as the width has bits.

use warpfold_lang::{Global, Lanes, Val, block_dim, block_idx, halving, kernel, lane_id, thread_idx, when};

use super::{Fold, Groups};
use crate::LadderElement;

/// Each half of a warp leaves the fold of 16 elements.
#[must_use]
pub fn sub_warp_16<T: LadderElement>(fold: Fold) -> Groups<T> {
    let name = format!("sub_warp_16_{}_{}", fold.name(), T::DTYPE);
    kernel(name, move |input: Global<T>, results: Global<T>, len: Val<u32>| {
        // Load
        let i = block_idx().x * block_dim().x + thread_idx().x;
        let mut acc = input.at(i).get_or(fold.identity::<T>(), i.lt(len));
        // Fold
        for stride in halving(8) {
            acc = fold.combine(acc, Lanes::all_lanes().width(16).shfl_down(acc, stride));
        }
        // Epilogue
        when((lane_id() % 16).eq(0) & i.lt(len), || results.at(i / 16).set(acc));
    })
}
