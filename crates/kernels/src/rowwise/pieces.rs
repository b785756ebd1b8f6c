//! Rows in shared memory whose every warp has a piece to itself: its threads bring it, read it as often as they have to, and put the
//! results in its place, from where one copy takes them away. So warps wait for each other in folds alone.

use std::cell::Cell;

use warpfold_lang::{
    Global, Shared, Val, bulk_commit, bulk_wait_read, cluster_block_rank, commit_copies, fence_async, lane_id,
    sync_warp, wait_for_copies, warp_id, when,
};

use super::held::{At, Walk};
use super::on_chip::OnChip;
use crate::Dtype;

/// How a row is dealt out: the blocks of a cluster have neighbouring parts, their warps neighbouring pieces of those, and the lanes of
/// a warp groups in turn.
#[derive(Debug)]
pub(super) struct Pieces {
    /// Items of the row.
    len: Val<u32>,
    /// Whether the row has all groups of all threads.
    exact: bool,
    /// Items side by side.
    vector: u32,
    /// Items of a warp.
    piece: u32,
    /// The first of them: in the row, and in what the block has.
    first: (Val<u32>, Val<u32>),
    /// Where this thread has its groups.
    groups: Vec<At>,
    /// How many of them it brings, and waits for, together.
    unroll: usize,
    /// Whether the first walk over the row, which waits for each of its groups, is recorded.
    is_there: Cell<bool>,
}

/// Where an input is or a result goes to: the row, and what the block has of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Staged {
    pub(super) row: Global<u8>,
    pub(super) room: Shared<u8>,
    pub(super) dtype: Dtype,
}

impl Pieces {
    /// So many groups a thread of a row of so many items.
    pub(super) fn new(shape: &OnChip, (groups, unroll): (u32, usize), exact: bool, len: Val<u32>) -> Self {
        let OnChip { block, cluster, vector, .. } = *shape;
        let (step, piece) = (32 * vector, 32 * vector * groups);
        let place = warp_id() * piece;
        let first = if cluster > 1 { cluster_block_rank() * (block * groups * vector) + place } else { place };
        let lane = lane_id() * vector;
        let (mine, mine_here) = (first + lane, place + lane);
        let groups = (0..groups).map(|g| At { first: mine, more: g * step, place: mine_here + g * step }).collect();
        Self { len, exact, vector, piece, first: (first, place), groups, unroll, is_there: Cell::new(false) }
    }

    /// Does something where the row has a group.
    fn if_there(&self, at: At, body: impl FnOnce()) {
        if self.exact { body() } else { when(at.position().lt(self.len), body) }
    }

    /// Begins to bring the inputs; the first walk waits for them, group by group.
    pub(super) fn bring(&self, inputs: &[Staged]) {
        for taken in self.groups.chunks(self.unroll) {
            taken.iter().for_each(|at| self.if_there(*at, || inputs.iter().for_each(|input| self.copy(*at, *input))));
            commit_copies();
        }
    }

    /// Begins to copy a group.
    fn copy(&self, at: At, Staged { row, room, dtype }: Staged) {
        let bytes = dtype.bytes();
        let from = row.at(at.first.cast::<u64>() * bytes).at(u64::from(at.more) * bytes);
        let to = room.at(at.place * bytes as u32);
        match u64::from(self.vector) * bytes {
            16 => to.copy_async::<16>(from),
            8 => to.copy_async::<8>(from),
            _ => to.copy_async::<4>(from),
        }
    }

    /// Takes away what the threads have put in the places of inputs.
    pub(super) fn take_away(&self, results: &[Staged]) {
        fence_async();
        sync_warp();
        let (first, place) = self.first;
        let is_there = if self.exact { Val::constant(true) } else { first.lt(self.len) };
        when(lane_id().eq(0) & is_there, || {
            let items = if self.exact { Val::constant(self.piece) } else { (self.len - first).min(self.piece) };
            for Staged { row, room, dtype } in results {
                let bytes = dtype.bytes() as u32;
                row.at(first.cast::<u64>() * u64::from(bytes)).copy_bulk(room.at(place * bytes), items * bytes);
            }
            bulk_commit();
            bulk_wait_read(0);
        });
    }
}

impl Walk for Pieces {
    fn each(&self, body: &dyn Fn(&[At])) {
        let is_there = self.is_there.replace(true);
        for (number, taken) in self.groups.chunks(self.unroll).enumerate() {
            if !is_there {
                wait_for_copies((self.groups.len().div_ceil(self.unroll) - 1 - number) as u32);
            }
            if self.exact {
                body(taken);
            } else {
                taken.iter().for_each(|at| self.if_there(*at, || body(&[*at])));
            }
        }
    }
}
