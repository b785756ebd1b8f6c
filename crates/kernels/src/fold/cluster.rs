//! The fold over the threads of a cluster, through its distributed shared memory (sm_90).

use warpfold_lang::{AnyRegisters, Registers, cluster_block_rank, cluster_sync, lane_id, shfl, warp_id, when};

use super::erased::ErasedMonoid;
use super::{Monoid, warp};

/// Folds the accumulators of the threads of a cluster of `blocks` blocks of `threads` threads, both
/// powers of two, in the order of blocks and threads; the result is in every thread. All threads of
/// the cluster must come here together, and every block must know that the others have begun.
///
/// Each warp folds by shuffles and stores one accumulator to every block; after one barrier of the
/// cluster each warp folds all of those. No block reads the shared memory of a peer, and what it
/// stores to a peer is stored before the peer passes the barrier, so a block may exit at any time
/// after it. Each use takes its own `blocks * threads / 32` words of shared memory a register.
#[track_caller]
pub fn fold_cluster<M: Monoid>(monoid: M, acc: M::Acc, threads: u32, blocks: u32) -> M::Acc {
    fold(&monoid, AnyRegisters::of(acc), threads, blocks).to()
}

#[track_caller]
fn fold(monoid: &dyn ErasedMonoid, acc: AnyRegisters, threads: u32, blocks: u32) -> AnyRegisters {
    assert!(
        threads.is_power_of_two() && (32..=1024).contains(&threads) && blocks.is_power_of_two() && blocks <= 16,
        "a cluster folds powers of two: 2 to 16 blocks of whole warps, not {blocks} of {threads} threads"
    );
    let num_warps = threads / 32;
    let all_warps = num_warps * blocks;
    let acc = shfl(warp::fold(monoid, acc, 32), 0);
    let of_warps = acc.shared(all_warps);
    // A lane folds neighbours, and the lanes' loads of one round are side by side.
    let each = all_warps.div_ceil(32);
    let number = cluster_block_rank() * num_warps + warp_id();
    let slot = (number & (each - 1)) * 32 + (number >> each.ilog2());
    when(lane_id().lt(blocks), || acc.store(AnyRegisters::in_block(of_warps, lane_id()), slot));
    cluster_sync();
    let lanes = all_warps.min(32);
    let take = |i: u32| AnyRegisters::load(of_warps, (lane_id() & (lanes - 1)) + i * 32);
    let acc = (1..each).fold(take(0), |acc, i| monoid.combine(acc, take(i)));
    shfl(warp::fold(monoid, acc, lanes), 0)
}
