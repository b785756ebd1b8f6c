//! Pending copies by `cp.async`, and the groups that they were committed to.
//!
//! One [`Copy`] is one warp instruction. Lanes may have committed different numbers of groups, so a
//! copy knows the group of each of its lanes. A lane's copy lands at the wait that covers its
//! group.

use std::collections::VecDeque;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::bytes;
use crate::exec::machine::Machine;
use crate::exec::row::{LANES, mask_of};

/// One `cp.async`, for the lanes that have not waited for it.
#[derive(Debug, Clone)]
pub(crate) struct Copy {
    /// The instruction.
    pub(crate) instruction: u32,
    /// Lanes for which it has not completed.
    pub(crate) mask: u32,
    /// Bytes that each lane writes.
    pub(crate) bytes: u32,
    /// Bytes that each lane reads; zeros fill the rest.
    pub(crate) source_bytes: [u32; LANES],
    /// Global addresses.
    pub(crate) from: [u64; LANES],
    /// Offsets in shared memory.
    pub(crate) to: [u32; LANES],
    /// The group of each lane, counted by its commits.
    pub(crate) group: [u32; LANES],
    /// Its number in the warp.
    pub(crate) number: u64,
    /// Its data has moved already.
    pub(crate) is_early: bool,
}

/// An arrival at a barrier of the block that follows all copies of a thread so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// The thread's warp.
    pub(crate) warp: u32,
    /// The thread's lane.
    pub(crate) lane: u32,
    /// Offset of the barrier.
    pub(crate) barrier: u32,
    /// Copies of the warp with lower numbers come before.
    pub(crate) issued: u64,
}

/// The copies of one warp, oldest first.
#[derive(Debug, Default)]
pub(crate) struct WarpCopies {
    pending: VecDeque<Copy>,
    /// Groups that each lane has committed.
    committed: [u32; LANES],
    issued: u64,
}

impl WarpCopies {
    /// Resets the state: no copies are pending.
    pub(super) fn begin(&mut self) {
        self.pending.clear();
        self.committed = [0; LANES];
        self.issued = 0;
    }

    /// Returns true if no copies are pending.
    pub(super) fn are_done(&self) -> bool {
        self.pending.is_empty()
    }

    /// Adds a copy to the lanes' open groups; `is_early` says that its data has moved.
    #[inline(always)]
    pub(super) fn issue(&mut self, copy: Copy, is_early: bool) {
        self.pending.push_back(Copy { group: self.committed, number: self.issued, is_early, ..copy });
        self.issued += 1;
    }

    /// The number of the next copy.
    pub(super) fn issued(&self) -> u64 {
        self.issued
    }

    /// Takes the copies of the lanes in `mask` issued before the copy with this number.
    pub(super) fn take_before(&mut self, mask: u32, number: u64) -> Vec<Copy> {
        self.take(mask, |copy, _| copy.number < number)
    }

    /// Closes the open groups of the lanes in `mask`.
    pub(super) fn commit(&mut self, mask: u32) {
        for (lane, committed) in self.committed.iter_mut().enumerate() {
            *committed += mask >> lane & 1;
        }
    }

    /// Takes, oldest first, the copies that the lanes in `mask` have committed, except for their
    /// last `keep` groups.
    pub(super) fn take_groups(&mut self, mask: u32, keep: u32) -> Vec<Copy> {
        let committed = self.committed;
        self.take(mask, |copy, lane| copy.group[lane] < committed[lane].saturating_sub(keep))
    }

    /// Takes the copies of the lanes in `mask` from the copy whose number is in `tracked`, and
    /// tells which of their lanes had committed it.
    pub(crate) fn take_untracked(&mut self, mask: u32, tracked: &[u64; LANES]) -> Vec<(Copy, u32)> {
        let committed = self.committed;
        let is_committed = |copy: &Copy, lane: usize| copy.group[lane] < committed[lane];
        let taken = self.take(mask, |copy, lane| copy.number >= tracked[lane]);
        let with_lanes = |copy: Copy| {
            let lanes = (0..LANES).fold(0, |all, lane| all | u32::from(is_committed(&copy, lane)) << lane);
            let lanes = lanes & copy.mask;
            (copy, lanes)
        };
        taken.into_iter().map(with_lanes).collect()
    }

    fn take(&mut self, mask: u32, is_covered: impl Fn(&Copy, usize) -> bool) -> Vec<Copy> {
        let mut taken = Vec::new();
        self.pending.retain_mut(|copy| {
            let lanes = mask_of(|lane| is_covered(copy, lane)) & copy.mask & mask;
            if lanes != 0 {
                copy.mask &= !lanes;
                taken.push(Copy { mask: lanes, ..copy.clone() });
            }
            copy.mask != 0
        });
        taken
    }
}

impl Machine {
    /// Moves the data of copies of the current block.
    pub(super) fn land_copies(&mut self, copies: &[Copy]) {
        for copy in copies.iter().filter(|copy| !copy.is_early) {
            for lane in (0..LANES).filter(|lane| copy.mask >> lane & 1 != 0) {
                if copy.bytes == 16
                    && copy.source_bytes[lane] == 16
                    && let Some(data) = self.global.locate(copy.from[lane], 16)
                {
                    // SAFETY: the source lies in one live allocation, which is only ever accessed
                    // atomically; the destination was found inside the block's shared memory when
                    // the copy began; both are aligned to 16 bytes.
                    unsafe {
                        let to = self.shared.add(copy.to[lane] as usize).cast::<u64>();
                        *to = (*data.cast::<AtomicU64>()).load(Relaxed);
                        *to.add(1) = (*data.add(8).cast::<AtomicU64>()).load(Relaxed);
                    }
                    continue;
                }
                let mut data = [0; 16];
                let known =
                    bytes::load(&mut self.global, copy.from[lane], &mut data[..copy.source_bytes[lane] as usize]);
                debug_assert!(known || copy.source_bytes[lane] == 0, "the range was checked when the copy began");
                // SAFETY: the destination was found inside the block's shared memory when the copy
                // began.
                unsafe {
                    let to = self.shared.add(copy.to[lane] as usize);
                    std::ptr::copy_nonoverlapping(data.as_ptr(), to, copy.bytes as usize);
                }
            }
        }
        self.progress |= !copies.is_empty();
    }
}
