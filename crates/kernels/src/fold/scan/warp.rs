//! The scan over the lanes of a warp, and over the warps of a block.

use warpfold_lang::{AnyRegisters, Lanes, Registers, Val, doubling, lane_id, sync_threads, warp_id, when};

use crate::fold::erased::{ErasedMonoid, SharedArrays};

/// The inclusive scan over each group of `lanes` lanes, a power of two up to 32. All 32 lanes must
/// come here together.
///
/// Lane `i` combines with lane `i - 1`, then `i - 2`, `i - 4` … (Hillis and Steele): the order of
/// the lanes is kept.
#[track_caller]
pub(super) fn scan_lanes(monoid: &dyn ErasedMonoid, mut acc: AnyRegisters, lanes: u32) -> AnyRegisters {
    assert!(lanes.is_power_of_two() && lanes <= 32, "a warp scans a power of two of lanes up to 32, not {lanes}");
    let lane = lane_id() & (lanes - 1);
    for distance in doubling(lanes) {
        let before = Lanes::all_lanes().width(lanes).shfl_up(acc, distance);
        acc = AnyRegisters::select(lane.ge(distance), monoid.combine(before, acc), acc);
    }
    acc
}

/// The accumulator of the lane before; the identity in the first lane of a group.
pub(super) fn lane_before(monoid: &dyn ErasedMonoid, acc: AnyRegisters, lanes: u32) -> AnyRegisters {
    if lanes == 1 {
        return monoid.identity();
    }
    let before = Lanes::all_lanes().width(lanes).shfl_up(acc, 1);
    AnyRegisters::select((lane_id() & (lanes - 1)).eq(0), monoid.identity(), before)
}

/// The accumulator of a group's last lane, in each of its lanes.
pub(super) fn last_lane<R: Registers>(acc: R, lanes: u32) -> R {
    if lanes == 1 { acc } else { Lanes::all_lanes().width(lanes).shfl(acc, lanes - 1) }
}

/// Of the accumulator of each warp, which all of its lanes have: the fold of the warps before, and
/// of all; both in every thread. No thread may still read the block's `num_warps` words from
/// `first` on.
pub(super) fn scan_warps(
    monoid: &dyn ErasedMonoid,
    acc: AnyRegisters,
    num_warps: u32,
    of_warps: SharedArrays,
    first: Val<u32>,
) -> (AnyRegisters, AnyRegisters) {
    when(lane_id().eq(0), || acc.store(of_warps, first + warp_id()));
    sync_threads();
    let lanes = num_warps.next_power_of_two();
    let lane = lane_id() & (lanes - 1);
    let scanned = scan_lanes(monoid, AnyRegisters::load(of_warps, first + lane.min(num_warps - 1)), lanes);
    let group = Lanes::all_lanes().width(lanes);
    let before = group.shfl(scanned, (warp_id().max(1)) - 1);
    let before = AnyRegisters::select(warp_id().eq(0), monoid.identity(), before);
    (before, group.shfl(scanned, num_warps - 1))
}
