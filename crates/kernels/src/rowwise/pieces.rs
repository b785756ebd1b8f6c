//! Rows in shared memory whose every warp has a piece to itself: its threads bring it, read it as often as they have to, and put the
//! results in its place, from where one copy takes them away. So warps wait for each other in folds alone.

use std::cell::Cell;

use warpfold_lang::{
    Global, Shared, Val, bulk_commit, bulk_wait_read, commit_copies, fence_async, lane_id, sync_warp, thread_idx,
    wait_for_copies, warp_id, when,
};

use super::held::{At, Walk};
use crate::Dtype;

/// Groups that a thread reads before it uses the first.
const UNROLL: usize = 2;

/// How a row is dealt out: the blocks of a cluster have neighbouring parts; of those the warps have neighbouring pieces, and the
/// lanes of a warp groups in turn.
#[derive(Debug)]
pub(super) struct Pieces {
    /// Threads of a block.
    pub(super) threads: u32,
    /// Whether all threads of a block have groups in turn, so that no warp has a piece.
    pub(super) in_turn: bool,
    /// Items of the row.
    pub(super) len: Val<u32>,
    /// Items side by side.
    pub(super) vector: u32,
    /// Groups that a thread has.
    pub(super) groups: u32,
    /// Whether the row has all of them.
    pub(super) exact: bool,
    /// The item from which on this block has the row.
    pub(super) start: Val<u32>,
    /// Whether the first walk over the row, which waits for each of its groups, is recorded.
    pub(super) is_there: Cell<bool>,
}

/// Where an input is or a result goes to: the row, and what the block has of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Staged {
    pub(super) row: Global<u8>,
    pub(super) room: Shared<u8>,
    pub(super) dtype: Dtype,
}

impl Pieces {
    /// Items of a warp.
    const fn piece(&self) -> u32 {
        32 * self.groups * self.vector
    }

    /// Where a thread has its groups.
    fn groups(&self) -> Vec<At> {
        let (place, step) = if self.in_turn {
            (thread_idx().x * self.vector, self.threads * self.vector)
        } else {
            (warp_id() * self.piece() + lane_id() * self.vector, 32 * self.vector)
        };
        let first = self.start + place;
        (0..self.groups).map(|g| At { first, more: g * step, place: place + g * step }).collect()
    }

    /// Does something where the row has a group.
    fn if_there(&self, at: At, body: impl FnOnce()) {
        if self.exact { body() } else { when(at.position().lt(self.len), body) }
    }

    /// Begins to bring the inputs; the first walk waits for them, group by group.
    pub(super) fn bring(&self, inputs: &[Staged]) {
        for taken in self.groups().chunks(UNROLL) {
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
        let place = warp_id() * self.piece();
        let first = self.start + place;
        let is_there = if self.exact { Val::constant(true) } else { first.lt(self.len) };
        when(lane_id().eq(0) & is_there, || {
            let items = if self.exact { Val::constant(self.piece()) } else { (self.len - first).min(self.piece()) };
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
        let (groups, is_there) = (self.groups(), self.is_there.replace(true));
        for (number, taken) in groups.chunks(UNROLL).enumerate() {
            if !is_there {
                wait_for_copies((groups.len().div_ceil(UNROLL) - 1 - number) as u32);
            }
            if self.exact {
                body(taken);
            } else {
                taken.iter().for_each(|at| self.if_there(*at, || body(&[*at])));
            }
        }
    }
}
