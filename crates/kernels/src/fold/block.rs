//! The fold over the threads of a block.

use warpfold_lang::{AnyRegisters, Registers, lane_id, shfl, sync_threads, warp_id, when, when_else_like};

use super::erased::{ErasedMonoid, SharedArrays};
use super::{Monoid, warp};

/// Folds the accumulators of the `threads` threads of a block, a multiple of 32; the result is in
/// thread 0, and of no use in the others. All threads of the block must come here together.
///
/// Each warp folds by shuffles and stores one accumulator to shared memory; after a barrier the
/// first warp folds those. Each use takes its own `threads / 32` words of shared memory a register.
#[track_caller]
pub fn fold_block<M: Monoid>(monoid: M, acc: M::Acc, threads: u32) -> M::Acc {
    fold(&monoid, AnyRegisters::of(acc), threads).to()
}

/// [`fold_block`] of any monoid.
#[track_caller]
pub(crate) fn fold(monoid: &dyn ErasedMonoid, acc: AnyRegisters, threads: u32) -> AnyRegisters {
    assert!(
        threads.is_multiple_of(32) && threads <= 1024,
        "a block folds whole warps, up to 32, not {threads} threads"
    );
    let num_warps = threads / 32;
    let acc = warp::fold(monoid, acc, 32);
    if num_warps <= 1 {
        return acc;
    }
    let of_warps = store_of_warps(acc, num_warps);
    when_else_like(
        acc,
        warp_id().eq(0),
        || {
            let lane = lane_id();
            let mut acc = AnyRegisters::load(of_warps, lane.min(num_warps - 1));
            if !num_warps.is_power_of_two() {
                acc = AnyRegisters::select(lane.lt(num_warps), acc, monoid.identity());
            }
            warp::fold(monoid, acc, num_warps.next_power_of_two())
        },
        || acc,
    )
}

/// As [`fold_block`], of a power of two of threads, with the result in every thread: after the one
/// barrier each warp folds the accumulators of all warps.
#[track_caller]
pub(crate) fn fold_block_for_all<M: Monoid>(monoid: M, acc: M::Acc, threads: u32) -> M::Acc {
    fold_for_all(&monoid, AnyRegisters::of(acc), threads).to()
}

#[track_caller]
fn fold_for_all(monoid: &dyn ErasedMonoid, acc: AnyRegisters, threads: u32) -> AnyRegisters {
    assert!(
        threads.is_power_of_two() && (32..=1024).contains(&threads),
        "a block folds a power of two of warps, up to 32, not {threads} threads"
    );
    let num_warps = threads / 32;
    let mut acc = warp::fold(monoid, acc, 32);
    if num_warps > 1 {
        let of_warps = store_of_warps(acc, num_warps);
        acc = warp::fold(monoid, AnyRegisters::load(of_warps, lane_id() & (num_warps - 1)), num_warps);
    }
    shfl(acc, 0)
}

/// Stores the accumulator of each warp's first lane, for all threads of the block to load.
#[track_caller]
fn store_of_warps(acc: AnyRegisters, num_warps: u32) -> SharedArrays {
    let of_warps = acc.shared(num_warps);
    when(lane_id().eq(0), || acc.store(of_warps, warp_id()));
    sync_threads();
    of_warps
}
