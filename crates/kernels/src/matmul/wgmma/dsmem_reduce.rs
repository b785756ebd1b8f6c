//! Split-K inside a cluster: two blocks exchange partial sums through distributed shared memory,
//! and each stores half of the tile's columns.
//!
//! Once: nothing tells that what was received has been read, so a cluster that took another tile
//! would overwrite it. Choices give each cluster one tile.

use warpfold_lang::{Shared, Val, cluster_block_rank, cluster_sync, dynamic_shared, thread_idx, warpgroup_idx, when};

use super::consume::Pairs;
use super::tile::WgmmaTile;
use crate::matmul::accumulator::Accumulator;

/// Where a block receives the other part of the sums that it finishes.
#[derive(Clone, Copy)]
pub(super) struct DsmemReduce<S> {
    consumers: u32,
    /// Four sums of each thread for each group of eight columns that the block finishes.
    received: Shared<S>,
}

impl<S: Accumulator> DsmemReduce<S> {
    pub(super) fn new(tile: WgmmaTile) -> Self {
        Self { consumers: tile.consumers, received: dynamic_shared(tile.received()) }
    }

    /// Gives the other block's half of the columns to it, which finishes them, and the sums of both
    /// parts of its own to `finish`. (Of every other group a block would store half sectors.) All
    /// warps of the cluster that have not ended wait for each other in between: those that copy do
    /// not come here.
    pub(super) fn fold(self, pairs: &Pairs<S>, writer: impl Fn(Pairs<S>)) {
        let rank = cluster_block_rank();
        // A thread has two rows of eight columns: two pairs.
        let groups: Vec<_> = pairs.chunks_exact(2).collect();
        let half = groups.len().div_ceil(2);
        let of_block = |block: u32| (0..).zip(groups.iter().skip(block as usize * half).take(half));
        for other in 0..2 {
            when(rank.ne(other), || {
                for (i, group) in of_block(other) {
                    let ([a, b], [c, d]) = (group[0].2, group[1].2);
                    self.place(i).in_block(other).set_vec([a, b, c, d]);
                }
            });
        }
        cluster_sync();
        for block in 0..2 {
            when(rank.eq(block), || {
                let finished = of_block(block).flat_map(|(i, group)| {
                    let [a, b, c, d] = self.place(i).get_vec::<4>();
                    let added = |(row, column, [left, right]): (_, _, [Val<S>; 2]), [a, b]: [Val<S>; 2]| {
                        (row, column, [left + a, right + b])
                    };
                    [added(group[0], [a, b]), added(group[1], [c, d])]
                });
                writer(finished.collect());
            });
        }
    }

    /// Where a thread's sums of a group of columns arrive.
    fn place(self, group: u32) -> Shared<S> {
        let (thread, warpgroup) = (thread_idx().x & 127, warpgroup_idx() - 1);
        self.received.at((group * self.consumers + warpgroup) * 512 + thread * 4)
    }
}
