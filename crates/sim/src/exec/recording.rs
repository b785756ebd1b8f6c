//! Recorder of the first accesses of one warp per instruction, with addresses, for diagrams.
//!
//! The model of the L1 ([`l1`](super::l1)) and the count of distinct sectors
//! ([`touched`](super::touched)) are told of the same accesses.
//!
//! Which warp: the first that came to the instruction in the lowest block that did. A run without
//! recording pays one test for each access.

use super::l1::L1;
use super::machine::Machine;
use super::memory_map::SHARED_WINDOW;
use super::op::Op;
use super::row::LANES;
use super::stepping::StepRecorder;
use super::touched::Touched;
use crate::report::MemorySpace;

/// Recorded access of one warp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Recorded {
    /// Bytes that each lane accesses.
    pub bytes: u32,
    /// The accessing lanes.
    pub mask: u32,
    /// Generic addresses by lane.
    pub at: [u64; LANES],
}

/// The accesses of one warp at one instruction, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OfWarp {
    /// Linear index of its block.
    pub block: u64,
    /// The warp in its block.
    pub warp: u32,
    /// The first accesses.
    pub accesses: Vec<Recorded>,
}

/// Recording of a worker.
#[derive(Debug, Default)]
pub(crate) struct Recording {
    /// Accesses kept for each instruction.
    pub most: usize,
    /// Accesses by instruction.
    pub by_instruction: Vec<Option<OfWarp>>,
    /// The L1 model, if enabled.
    pub l1: Option<L1>,
    /// Distinct sectors, where they are asked for.
    pub touched: Option<Touched>,
    /// RecordedSteps of a warp, where they are asked for.
    pub steps: Option<StepRecorder>,
}

impl Recording {
    /// Allocates room for `most` accesses of each instruction.
    pub(crate) fn new(most: usize, num_instructions: usize, l1: Option<L1>) -> Self {
        Self { most, by_instruction: vec![None; num_instructions], l1, touched: None, steps: None }
    }

    /// Merges another worker's recording, keeping the lower block of each instruction.
    pub(crate) fn merge(&mut self, mut other: Self) {
        match (&mut self.touched, other.touched.take()) {
            (Some(mine), Some(other)) => mine.merge(other),
            (None, other) => self.touched = other,
            (Some(_), None) => {}
        }
        self.steps = self.steps.take().or(other.steps.take());
        if self.by_instruction.is_empty() {
            self.by_instruction = other.by_instruction;
            return;
        }
        for (mine, other) in self.by_instruction.iter_mut().zip(other.by_instruction) {
            let is_lower = |other: &OfWarp| mine.as_ref().is_none_or(|mine| other.block < mine.block);
            if other.as_ref().is_some_and(is_lower) {
                *mine = other;
            }
        }
    }

    fn add(&mut self, instruction: u32, block: u64, warp: u32, access: Recorded) {
        let kept = &mut self.by_instruction[instruction as usize];
        let kept = kept.get_or_insert_with(|| OfWarp { block, warp, accesses: Vec::new() });
        if (kept.block, kept.warp) == (block, warp) && kept.accesses.len() < self.most {
            kept.accesses.push(access);
        }
    }
}

impl Machine {
    /// Records an access to global memory.
    #[inline(always)]
    pub(crate) fn record(&mut self, op: &Op, at: &[u64; LANES], mask: u32, bytes: u32) {
        if self.recording.is_some() && mask != 0 {
            self.keep(op, &Recorded { bytes, mask, at: *at }, MemorySpace::Global);
        }
    }

    /// Records an access to the shared memory of the running block.
    #[inline(always)]
    pub(crate) fn record_shared(&mut self, op: &Op, at: &[u32; LANES], mask: u32, bytes: u32) {
        if self.recording.is_some() && mask != 0 {
            let at = at.map(|offset| SHARED_WINDOW + u64::from(offset));
            self.keep(op, &Recorded { bytes, mask, at }, MemorySpace::Shared);
        }
    }

    #[cold]
    #[inline(never)]
    fn keep(&mut self, op: &Op, access: &Recorded, space: MemorySpace) {
        let (block, warp) = (self.block, self.warp);
        let Some(recording) = &mut self.recording else { return };
        if recording.most > 0 {
            recording.add(op.instruction, block, warp, *access);
        }
        if let Some(steps) = &mut recording.steps {
            steps.note(op.instruction, (block, warp), access, space);
        }
        if let Some(l1) = recording.l1.as_mut().filter(|_| space == MemorySpace::Global) {
            let (sectors, hits) = l1.access(op.instruction, block, access);
            let counters = &mut self.counters[op.instruction as usize];
            counters.l1_sectors += sectors;
            counters.l1_hits += hits;
        }
        if let Some(touched) = recording.touched.as_mut().filter(|_| space == MemorySpace::Global) {
            touched.access(op.instruction, block, access);
        }
    }

    /// Keeps what a bulk copy moves in global memory.
    #[inline(always)]
    pub(crate) fn record_bulk(&mut self, op: &Op, start: u64, bytes: u32) {
        let block = self.block;
        if let Some(touched) = self.recording.as_mut().and_then(|recording| recording.touched.as_mut()) {
            touched.range(op.instruction, block, start, u64::from(bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(first: u64) -> Recorded {
        Recorded { bytes: 4, mask: 1, at: [first; LANES] }
    }

    #[test]
    fn one_warp_is_followed_as_far_as_there_is_room() {
        let mut recording = Recording::new(2, 1, None);
        for (warp, first) in [(3, 0), (4, 100), (3, 4), (3, 8)] {
            recording.add(0, 7, warp, access(first));
        }
        let kept = OfWarp { block: 7, warp: 3, accesses: vec![access(0), access(4)] };
        assert_eq!(recording.by_instruction, [Some(kept)]);
    }

    #[test]
    fn of_two_workers_the_lower_block_is_kept() {
        let of = |block| {
            let mut recording = Recording::new(2, 1, None);
            recording.add(0, block, 0, access(block));
            recording
        };
        let mut all = Recording::default();
        [5, 2, 9].into_iter().for_each(|block| all.merge(of(block)));
        assert_eq!(all.by_instruction[0].as_ref().map(|kept| kept.block), Some(2));
    }
}
