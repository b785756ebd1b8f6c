//! The fold over the threads of a cluster, through its distributed shared memory (sm_90).

use warpfold_lang::{Registers, cluster_block_rank, cluster_sync, lane_id, shfl, warp_id, when};

use super::{Monoid, fold_warp};

/// Folds the accumulators of the threads of a cluster of `blocks` blocks of `threads` threads, both powers of two, in the order
/// of blocks and threads; the result is in every thread. All threads of the cluster must come here together, and every block
/// must know that the others have begun.
///
/// Each warp folds by shuffles and leaves one accumulator with every block; after one barrier of the cluster each warp folds all
/// of those by itself. So nothing of a peer's is read, and what is written to a peer is written before it passes the barrier:
/// blocks may end behind it as they like. Each use takes its own `blocks * threads / 32` words of shared memory a register.
#[track_caller]
pub fn fold_cluster<M: Monoid>(monoid: M, acc: M::Acc, threads: u32, blocks: u32) -> M::Acc {
    assert!(
        threads.is_power_of_two() && (32..=1024).contains(&threads) && blocks.is_power_of_two() && blocks <= 16,
        "a cluster folds powers of two: 2 to 16 blocks of whole warps, not {blocks} of {threads} threads"
    );
    let num_warps = threads / 32;
    let all_warps = num_warps * blocks;
    let acc = shfl(fold_warp(monoid, acc, 32), 0);
    let of_warps = acc.shared(all_warps);
    // A lane takes neighbours, and what the lanes take at a time lies side by side.
    let each = all_warps.div_ceil(32);
    let number = cluster_block_rank() * num_warps + warp_id();
    let slot = (number & (each - 1)) * 32 + (number >> each.ilog2());
    when(lane_id().lt(blocks), || acc.store(M::Acc::in_block(of_warps, lane_id()), slot));
    cluster_sync();
    let lanes = all_warps.min(32);
    let take = |i: u32| M::Acc::load(of_warps, (lane_id() & (lanes - 1)) + i * 32);
    let acc = (1..each).fold(take(0), |acc, i| monoid.combine(acc, take(i)));
    shfl(fold_warp(monoid, acc, lanes), 0)
}
