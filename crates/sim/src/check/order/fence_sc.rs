//! Fence-SC order between blocks, like [`sequential`](super::sequential) inside a block: which of
//! two `fence.sc` came first, if a value that was read, or the order of two writes, determines it.
//!
//! A strong access behind a `fence.sc` leaves at its location what that fence covers; a strong
//! write of another warp that comes after it, by the order of the location's values, has overtaken
//! it, and so has a strong read that observes such a write (PTX ISA, "Causality Order": what was
//! observed precedes what follows the read). The next `fence.sc` behind the write or the read
//! learns what was left. "Behind" is base causality order: what is released carries along which
//! fences come before it, and what it has overtaken ([`Fact`]). The fences have to be morally
//! strong: one whose scope ends at the block covers and learns nothing here.
//!
//! Between workers an access is left before it is performed, and a write counts as done some time
//! after it was: so a write may overtake an access that in truth came after it, which may lose a
//! finding, but misses none that came before. With one worker all is exact.
//!
//! What can be missed: of clusters, a fence of `.cluster` scope counts as one of `.gpu` scope. Not
//! followed: that of several fences one must come first, whichever it is.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::check::order::locations::{Announced, Locations};
use crate::check::order::reach::{Fact, Grade, Reach, join};

const SHARDS: usize = 64;
// THRESHOLD: fences of one location are merged; tested by
// crates/sim/src/check/tests/fences.rs::many_fences_at_one_location_lose_no_order
/// Accesses that are told apart at one location: later ones join the last.
const MOST: usize = 16;
/// Block and warp of several.
const ANYONE: (u32, u32) = (u32::MAX, u32::MAX);
/// Writes of a warp that are looked up together.
const WRITES: usize = 64;

/// Mark that an access behind a `fence.sc` leaves at its location.
#[derive(Debug)]
struct Left {
    /// Time in the launch's count of stores.
    time: u64,
    /// Block and warp.
    by: (u32, u32),
    /// Accesses that the fences before it cover.
    reach: Arc<Reach>,
}

/// A location with such accesses.
#[derive(Debug, Default)]
struct Place {
    left: Vec<Left>,
    /// Writes since the first of them that were perhaps not done when last looked at.
    writes: Vec<Arc<Announced>>,
    /// Time at which the last of the other writes was done.
    written: u64,
    /// A write from before the first access may be done after it.
    is_unsure: bool,
}

impl Place {
    /// Time before which accesses precede a write that a reader of the location observes.
    fn written(&mut self) -> u64 {
        let written = &mut self.written;
        self.writes.retain(|write| {
            *written = (*written).max(write.time().unwrap_or(0));
            write.time().is_none()
        });
        if self.is_unsure || !self.writes.is_empty() { u64::MAX } else { self.written }
    }

    /// Joins the marks that an access overtakes if it comes after the accesses before `time`.
    fn overtaken(&self, time: u64, by: (u32, u32), into: &mut Option<Arc<Reach>>) {
        for left in self.left.iter().filter(|left| left.time < time && left.by != by) {
            join(into, Some(&left.reach));
        }
    }
}

/// Marks of all accesses of a launch.
#[derive(Debug)]
pub(super) struct Fenced {
    shards: [Mutex<HashMap<u64, Place>>; SHARDS],
    count: AtomicUsize,
}

impl Default for Fenced {
    fn default() -> Self {
        Self { shards: std::array::from_fn(|_| Mutex::default()), count: AtomicUsize::new(0) }
    }
}

impl Fenced {
    fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    fn shard(&self, address: u64) -> MutexGuard<'_, HashMap<u64, Place>> {
        self.shards[(address >> 2) as usize % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Locations {
    /// An access that is about to be performed leaves what the fences before it cover.
    fn leave(&self, address: u64, by: (u32, u32), reach: &Arc<Reach>) {
        let time = self.now();
        let mut shard = self.fenced.shard(address);
        let place = shard.entry(address).or_default();
        if place.left.iter().any(|left| left.by == by && Arc::ptr_eq(&left.reach, reach)) {
            return;
        }
        place.is_unsure |= place.left.is_empty() && self.are_others_writing();
        let is_full = place.left.len() >= MOST;
        match place.left.last_mut() {
            Some(last) if is_full => {
                last.by = ANYONE;
                Arc::make_mut(&mut last.reach).join(reach);
            }
            _ => place.left.push(Left { time, by, reach: Arc::clone(reach) }),
        }
        self.fenced.count.fetch_add(1, Ordering::AcqRel);
    }
}

/// State of a warp in Fence-SC order.
#[derive(Debug, Default, Clone)]
pub(super) struct Sequence {
    /// Accesses covered by the fences before the warp's next access.
    behind: Option<Arc<Reach>>,
    /// Location of its last mark: a polling warp leaves the same each time, and the first is
    /// overtaken by more.
    left: Option<u64>,
    /// Strong writes that were perhaps not done when last looked at.
    writes: Vec<(u64, Arc<Announced>)>,
    /// Accesses covered by the fences that precede the warp's next one.
    overtaken: Option<Arc<Reach>>,
    /// The facts heard last.
    heard: Option<Arc<Reach>>,
    /// The location last read, what was left there and when it was written.
    read: Option<(u64, usize, u64)>,
}

impl Sequence {
    /// A strong access is about to be performed.
    pub(super) fn access(&mut self, locations: &Locations, address: u64, by: (u32, u32)) {
        if let Some(behind) = self.behind.as_ref().filter(|_| self.left != Some(address)) {
            locations.leave(address, by, behind);
            self.left = Some(address);
        }
    }

    /// A strong write, or an atomic, is about to be performed.
    pub(super) fn write(&mut self, locations: &Locations, address: u64, by: (u32, u32), announced: &Arc<Announced>) {
        self.access(locations, address, by);
        if !locations.fenced.is_empty()
            && let Some(place) = locations.fenced.shard(address).get_mut(&address)
        {
            place.written();
            place.writes.push(Arc::clone(announced));
        }
        if self.writes.len() >= WRITES {
            self.look(locations, by);
        }
        self.writes.push((address, Arc::clone(announced)));
    }

    /// A strong read has read.
    pub(super) fn read(&mut self, locations: &Locations, address: u64, by: (u32, u32)) {
        if locations.fenced.is_empty() {
            return;
        }
        let mut shard = locations.fenced.shard(address);
        let Some(place) = shard.get_mut(&address) else { return };
        let written = place.written();
        let now = Some((address, place.left.len(), written));
        if self.read != now || place.left.len() >= MOST {
            place.overtaken(written, by, &mut self.overtaken);
            self.read = now;
        }
    }

    /// Finds what the writes that are done have overtaken.
    pub(super) fn look(&mut self, locations: &Locations, by: (u32, u32)) {
        let nothing = locations.fenced.is_empty();
        let overtaken = &mut self.overtaken;
        self.writes.retain(|(address, announced)| {
            let Some(time) = announced.time() else { return true };
            if !nothing && let Some(place) = locations.fenced.shard(*address).get(address) {
                place.overtaken(time, by, overtaken);
            }
            false
        });
    }

    /// A `fence.sc`, once all that its worker announced is done: what it learns.
    pub(super) fn fence(&mut self, locations: &Locations, by: (u32, u32)) -> Option<Arc<Reach>> {
        self.look(locations, by);
        self.read = None;
        let overtaken = self.overtaken.take()?;
        Some(Arc::new(overtaken.turned(Fact::Fenced, Fact::Known(Grade::Wide))))
    }

    /// The fence covers what its thread knows.
    pub(super) fn cover(&mut self, known: &Reach) {
        self.join_behind(&Arc::new(known.turned(Fact::Known(Grade::Wide), Fact::Fenced)));
    }

    fn join_behind(&mut self, covered: &Arc<Reach>) {
        join(&mut self.behind, Some(covered));
        self.left = None;
    }

    /// Facts about fences that a release by the warp carries.
    pub(super) fn told(&self) -> Option<Arc<Reach>> {
        let mut told = self.behind.clone();
        if let Some(overtaken) = &self.overtaken {
            join(&mut told, Some(&Arc::new(overtaken.turned(Fact::Fenced, Fact::Overtaken))));
        }
        told
    }

    /// Learns the facts about fences from an acquire by the warp.
    pub(super) fn hear(&mut self, reach: &Arc<Reach>) {
        if !reach.is_of_fences() || self.heard.as_ref().is_some_and(|heard| Arc::ptr_eq(heard, reach)) {
            return;
        }
        let behind = reach.turned(Fact::Fenced, Fact::Fenced);
        if !behind.is_empty() {
            self.join_behind(&Arc::new(behind));
        }
        let overtaken = reach.turned(Fact::Overtaken, Fact::Fenced);
        if !overtaken.is_empty() {
            join(&mut self.overtaken, Some(&Arc::new(overtaken)));
        }
        self.heard = Some(Arc::clone(reach));
    }

    /// Passes the state on at a barrier.
    pub(super) fn pass_on(&self, to: &mut Self) {
        if let Some(behind) = &self.behind {
            to.join_behind(behind);
        }
        join(&mut to.overtaken, self.overtaken.as_ref());
        // What all warps have heard of comes back from each of them: kept once, or it would grow by
        // the number of warps at every barrier.
        let mut known: HashSet<_> = to.writes.iter().map(|(at, write)| (*at, Arc::as_ptr(write))).collect();
        to.writes.extend(self.writes.iter().filter(|(at, write)| known.insert((*at, Arc::as_ptr(write)))).cloned());
    }

    /// Returns true if the state is empty.
    pub(super) const fn is_nothing(&self) -> bool {
        self.behind.is_none() && self.writes.is_empty() && self.overtaken.is_none()
    }

    /// Returns true if the warp's strong accesses leave marks.
    pub(super) const fn has_fenced(&self) -> bool {
        self.behind.is_some()
    }
}
