//! The threads that share a row, and fold their accumulators.

use warpfold_lang::{Val, cluster_arrive_relaxed, cluster_block_rank, cluster_wait, lane_id, range, shfl, thread_idx};

use super::{Monoid, fold_block_for_all, fold_cluster, fold_warp};

/// The threads that share a row: they come to each of these functions together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Team {
    /// The 32 lanes of a warp.
    Warp,
    /// A group of lanes, a power of two below 32.
    Lanes(u32),
    /// A block of threads, a power of two.
    Block(u32),
    /// A cluster of blocks of threads, both powers of two.
    Cluster {
        /// Blocks a cluster.
        blocks: u32,
        /// Threads per block.
        threads: u32,
    },
}

impl Team {
    /// How many they are: a power of two.
    #[must_use]
    pub const fn threads(self) -> u32 {
        match self {
            Self::Warp => 32,
            Self::Lanes(threads) | Self::Block(threads) => threads,
            Self::Cluster { blocks, threads } => blocks * threads,
        }
    }

    /// This thread's number among them.
    #[must_use]
    pub fn thread(self) -> Val<u32> {
        match self {
            Self::Warp => lane_id(),
            Self::Lanes(lanes) => lane_id() & (lanes - 1),
            Self::Block(_) => thread_idx().x,
            Self::Cluster { threads, .. } => cluster_block_rank() * threads + thread_idx().x,
        }
    }

    /// Begins: tells the other blocks of the cluster that this one runs. Nothing that they write
    /// may be used before.
    #[track_caller]
    pub fn begin(self) {
        if let Self::Cluster { .. } = self {
            cluster_arrive_relaxed();
        }
    }

    /// After [`begin`](Self::begin), before the first fold: waits until every block of the cluster
    /// has begun.
    #[track_caller]
    pub fn gather(self) {
        if let Self::Cluster { .. } = self {
            cluster_wait();
        }
    }

    /// Calls `body` for the thread's positions below `len`: neighbouring positions for neighbouring
    /// threads.
    #[track_caller]
    pub fn each(self, len: Val<u32>, body: impl FnOnce(Val<u32>)) {
        range(self.thread(), len, self.threads(), body);
    }

    /// The fold of the threads' accumulators, in the order of the threads, in each of them.
    #[track_caller]
    pub fn fold<M: Monoid>(self, monoid: M, acc: M::Acc) -> M::Acc {
        match self {
            Self::Warp => shfl(fold_warp(monoid, acc, 32), 0),
            Self::Lanes(1) => acc,
            Self::Lanes(lanes) => shfl(fold_warp(monoid, acc, lanes), lane_id() & !(lanes - 1)),
            Self::Block(threads) => fold_block_for_all(monoid, acc, threads),
            Self::Cluster { blocks, threads } => fold_cluster(monoid, acc, threads, blocks),
        }
    }
}
