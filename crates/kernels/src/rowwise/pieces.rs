//! Rows in shared memory whose every warp has a piece to itself: its threads bring it, read it as often as they have to, and put the
//! results in its place, from where one copy takes them away. So warps wait for each other in folds alone. What shared memory has no room
//! for stays in registers.

use std::cell::Cell;

use warpfold_lang::{
    Global, Shared, Val, bulk_commit, bulk_wait_read, cluster_block_rank, commit_copies, fence_async, lane_id,
    sync_warp, wait_for_copies, warp_id, when,
};

use super::held::{At, Walk};
use super::on_chip::{Dealing, OnChip};
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
    /// Where this thread has its groups: those in shared memory, then those in registers.
    groups: Vec<At>,
    /// How many of them are in shared memory.
    staged: usize,
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

/// The groups in registers: for each of them and each input the words that hold its items.
pub(super) type Kept = Vec<Vec<Vec<Val<u32>>>>;

impl Pieces {
    /// A row of so many items.
    pub(super) fn new(shape: &OnChip, dealing: Dealing, unroll: usize, len: Val<u32>) -> Self {
        let OnChip { block, cluster, vector, .. } = *shape;
        let Dealing { groups, exact, kept, .. } = dealing;
        let (step, staged) = (32 * vector, groups - kept);
        let (piece, place) = (step * groups, warp_id() * (step * staged));
        let of_block = warp_id() * piece;
        let first = if cluster > 1 { cluster_block_rank() * (block * groups * vector) + of_block } else { of_block };
        let lane = lane_id() * vector;
        let (mine, mine_here) = (first + lane, place + lane);
        let at = |g: u32| {
            let kept = g.checked_sub(staged).map(|number| number as usize);
            At { first: mine, more: g * step, place: mine_here + g * step, kept }
        };
        let groups = (0..groups).map(at).collect();
        let (first, staged) = ((first, place), staged as usize);
        Self { len, exact, vector, piece, first, groups, staged, unroll, is_there: Cell::new(false) }
    }

    /// Does something where the row has a group.
    fn if_there(&self, at: At, body: impl FnOnce()) {
        if self.exact { body() } else { when(at.position().lt(self.len), body) }
    }

    /// Begins to bring the inputs; the first walk waits for them, group by group.
    pub(super) fn bring(&self, inputs: &[Staged]) -> Kept {
        let (staged, kept) = self.groups.split_at(self.staged);
        for taken in staged.chunks(self.unroll) {
            taken.iter().for_each(|at| self.if_there(*at, || inputs.iter().for_each(|input| self.copy(*at, *input))));
            commit_copies();
        }
        kept.iter().map(|at| inputs.iter().map(|input| self.words(*at, *input)).collect()).collect()
    }

    /// A group as words; zeros where the row has none.
    fn words(&self, at: At, Staged { row, dtype, .. }: Staged) -> Vec<Val<u32>> {
        let from = group_of(row, at, dtype).reinterpret::<u32>();
        let has = if self.exact { Val::constant(true) } else { at.position().lt(self.len) };
        match u64::from(self.vector) * dtype.bytes() {
            16 => from.get_vec_or::<4>(0, has).to_vec(),
            8 => from.get_vec_or::<2>(0, has).to_vec(),
            _ => vec![from.get_or(0, has)],
        }
    }

    /// Begins to copy a group.
    fn copy(&self, at: At, Staged { row, room, dtype }: Staged) {
        let from = group_of(row, at, dtype);
        let to = room.at(at.place * dtype.bytes() as u32);
        match u64::from(self.vector) * dtype.bytes() {
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

/// Where a group of a row begins.
fn group_of(row: Global<u8>, at: At, dtype: Dtype) -> Global<u8> {
    row.at(at.first.cast::<u64>() * dtype.bytes()).at(u64::from(at.more) * dtype.bytes())
}

impl Walk for Pieces {
    fn each(&self, body: &dyn Fn(&[At])) {
        let is_there = self.is_there.replace(true);
        let (staged, kept) = self.groups.split_at(self.staged);
        let copies = staged.chunks(self.unroll).len();
        for (number, taken) in staged.chunks(self.unroll).chain(kept.chunks(self.unroll)).enumerate() {
            if !is_there && number < copies {
                wait_for_copies((copies - 1 - number) as u32);
            }
            if self.exact {
                body(taken);
            } else {
                taken.iter().for_each(|at| self.if_there(*at, || body(&[*at])));
            }
        }
    }
}
