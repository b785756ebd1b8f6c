//! The fold over the lanes of a warp.

use warpfold_lang::{AnyRegisters, doubling, shfl_down};

use super::Monoid;
use super::erased::ErasedMonoid;

/// Folds the accumulators of the first `lanes` lanes, a power of two up to 32; the result is in
/// lane 0, and of no use in the others. All 32 lanes must come here together.
///
/// Lane `i` combines with lane `i + 1`, then `i + 2`, `i + 4` …: neighbours first, so that the
/// order of the lanes is kept.
#[track_caller]
pub fn fold_warp<M: Monoid>(monoid: M, acc: M::Acc, lanes: u32) -> M::Acc {
    fold(&monoid, AnyRegisters::of(acc), lanes).to()
}

/// [`fold_warp`] of any monoid.
#[track_caller]
pub(crate) fn fold(monoid: &dyn ErasedMonoid, mut acc: AnyRegisters, lanes: u32) -> AnyRegisters {
    assert!(lanes.is_power_of_two() && lanes <= 32, "a warp folds a power of two of lanes up to 32, not {lanes}");
    if lanes == 32
        && let Some(all) = monoid.fold_lanes(acc)
    {
        return all;
    }
    for stride in doubling(lanes) {
        acc = monoid.combine(acc, shfl_down(acc, stride));
    }
    acc
}
