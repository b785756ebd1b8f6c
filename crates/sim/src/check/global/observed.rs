//! Strong writes of a location that strong reads have observed.
//!
//! PTX ISA, "Causality Order": a write X precedes Y if some Z reads X's value, or one that only
//! atomics built on it, and Z precedes Y in base causality order. No fence is needed, but this
//! holds for X alone, not for what came before X. So a block that has drawn the last ticket from a
//! counter may reset it by a plain store, and a thread that has seen a flag may clear it.
//!
//! An atomic leaves the write that it builds on among the readers of its cell, where
//! [`judge`](super::judge) finds it. What other reads see is noted here, once their value is read:
//! the last writer that the cell names then. A write that another worker has announced, but not
//! made, counts as observed.
//!
//! What can be missed: of a location that more than [`MOST`] warps have read, a write counts as
//! observed by all.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::check::access::Lanes;
use crate::check::global::judge::Visit;
use crate::check::global::shadow::Cell;
use crate::check::order::reach::Moment;

const SHARDS: usize = 64;
// THRESHOLD: what more have read counts as observed by all; tested by
// crates/sim/src/check/global/observed.rs::what_too_many_have_read_counts_as_observed_by_all
/// Observations tracked separately at one location.
const MOST: usize = 64;

/// A strong read of a location.
#[derive(Debug, Clone, Copy)]
pub(in crate::check) struct Observation {
    /// The number of the write that it observed.
    pub(in crate::check) writer: u32,
    pub(in crate::check) at: Moment,
    /// Time in the order of its block.
    pub(in crate::check) time: u32,
    pub(in crate::check) lanes: u32,
}

/// The observations of a launch, by location.
#[derive(Debug)]
pub(in crate::check) struct Observed {
    shards: [Mutex<HashMap<u64, Vec<Observation>>>; SHARDS],
    count: AtomicUsize,
}

impl Default for Observed {
    fn default() -> Self {
        Self { shards: std::array::from_fn(|_| Mutex::default()), count: AtomicUsize::new(0) }
    }
}

impl Observed {
    fn shard(&self, word: u64) -> &Mutex<HashMap<u64, Vec<Observation>>> {
        &self.shards[(word >> 2) as usize % SHARDS]
    }

    /// Notes what a strong read of a word has observed.
    pub(in crate::check) fn note(&self, word: u64, new: Observation) {
        let mut shard = self.shard(word).lock().unwrap_or_else(PoisonError::into_inner);
        let all = shard.entry(word).or_default();
        let is_same =
            |old: &&mut Observation| (old.writer, old.at.block, old.at.warp) == (new.writer, new.at.block, new.at.warp);
        if let Some(old) = all.iter_mut().find(is_same) {
            old.lanes |= new.lanes;
        } else if all.len() <= MOST {
            all.push(new);
        }
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns true if some read that `is_before` accepts has observed a write.
    pub(in crate::check) fn any(&self, word: u64, writer: u32, is_before: impl Fn(&Observation) -> bool) -> bool {
        if self.count.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let shard = self.shard(word).lock().unwrap_or_else(PoisonError::into_inner);
        let Some(all) = shard.get(&word) else { return false };
        all.len() > MOST || all.iter().any(|seen| seen.writer == writer && is_before(seen))
    }
}

impl Visit<'_> {
    /// Notes what strong reads of a word have observed, once their value is read.
    pub(in crate::check) fn observe(&mut self) {
        let addresses = self.addresses;
        let words = self.access.bytes.div_ceil(4) as usize;
        let places = Lanes(self.access.mask).flat_map(|lane| {
            let first = self.shadow.word(addresses[lane as usize]);
            first..first + words
        });
        for word in places {
            let cell = Cell(self.shadow.cell(word).load(Ordering::Acquire));
            if cell.is_strong()
                && let Some(writer) = self.rival(cell.writer())
                && (writer.at.block, writer.at.warp) != (self.block, self.access.warp)
                && self.reach_each_other(&writer)
                && !self.grid.all_know((self.access.warp, self.access.mask), writer.at)
            {
                let (at, time) = (self.grid.moment(self.access.warp), self.order.time(self.access.warp));
                let seen = Observation { writer: cell.writer(), at, time, lanes: self.access.mask };
                self.launch.observed.note(self.shadow.base() + word as u64 * 4, seen);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(block: u32, writer: u32) -> Observation {
        Observation { writer, at: Moment { block, warp: 0, tick: 0 }, time: 1, lanes: 1 }
    }

    #[test]
    fn a_read_has_observed_the_write_that_it_was_noted_for() {
        let observed = Observed::default();
        assert!(!observed.any(8, 1, |_| true));
        observed.note(8, by(3, 1));
        assert!(observed.any(8, 1, |seen| seen.at.block == 3));
        assert!(!observed.any(8, 1, |seen| seen.at.block == 2));
        assert!(!observed.any(8, 2, |_| true) && !observed.any(12, 1, |_| true));
    }

    #[test]
    fn what_too_many_have_read_counts_as_observed_by_all() {
        let observed = Observed::default();
        for block in 0..MOST as u32 {
            observed.note(8, by(block, 1));
        }
        assert!(!observed.any(8, 1, |seen| seen.at.block == 1000));
        observed.note(8, by(MOST as u32, 1));
        assert!(observed.any(8, 1, |seen| seen.at.block == 1000));
    }
}
