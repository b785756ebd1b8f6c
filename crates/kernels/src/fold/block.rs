//! The fold over the threads of a block.

use warpfold_lang::{Registers, SharedSpace, lane_id, shfl, sync_threads, warp_id, when, when_else_like};

use super::{Monoid, fold_warp};

/// Folds the accumulators of the `threads` threads of a block, a multiple of 32; the result is in thread 0, and of no
/// use in the others. All threads of the block must come here together.
///
/// Each warp folds by shuffles and leaves one accumulator in shared memory; after a barrier the first warp folds those.
/// Each use takes its own `threads / 32` words of shared memory a register.
#[track_caller]
pub fn fold_block<M: Monoid>(monoid: M, acc: M::Acc, threads: u32) -> M::Acc {
    assert!(
        threads.is_multiple_of(32) && threads <= 1024,
        "a block folds whole warps, up to 32, not {threads} threads"
    );
    let num_warps = threads / 32;
    let acc = fold_warp(monoid, acc, 32);
    if num_warps <= 1 {
        return acc;
    }
    let of_warps = left_by_warps(acc, num_warps);
    when_else_like(
        acc,
        warp_id().eq(0),
        || {
            let lane = lane_id();
            let mut acc = M::Acc::load(of_warps, lane.min(num_warps - 1));
            if !num_warps.is_power_of_two() {
                acc = M::Acc::select(lane.lt(num_warps), acc, monoid.identity());
            }
            fold_warp(monoid, acc, num_warps.next_power_of_two())
        },
        || acc,
    )
}

/// As [`fold_block`], of a power of two of threads, and the result is in every thread: each warp folds by itself what all warps have
/// left, behind the one barrier that there is.
#[track_caller]
pub fn fold_block_for_all<M: Monoid>(monoid: M, acc: M::Acc, threads: u32) -> M::Acc {
    assert!(
        threads.is_power_of_two() && (32..=1024).contains(&threads),
        "a block folds a power of two of warps, up to 32, not {threads} threads"
    );
    let num_warps = threads / 32;
    let mut acc = fold_warp(monoid, acc, 32);
    if num_warps > 1 {
        let of_warps = left_by_warps(acc, num_warps);
        acc = fold_warp(monoid, M::Acc::load(of_warps, lane_id() & (num_warps - 1)), num_warps);
    }
    shfl(acc, 0)
}

/// What the first lanes of all warps have, for each thread of the block.
#[track_caller]
fn left_by_warps<A: Registers>(acc: A, num_warps: u32) -> A::Pointers<SharedSpace> {
    let of_warps = acc.shared(num_warps);
    when(lane_id().eq(0), || acc.store(of_warps, warp_id()));
    sync_threads();
    of_warps
}
