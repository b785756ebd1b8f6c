//! Facts that locations of global memory carry from releases to acquires, for all blocks of a
//! launch.
//!
//! As in [`flags`](crate::check::order::flags), an atomic adds to what its location carries and a
//! store replaces it. Between workers a store is announced some time before its value is in memory,
//! and a read is told of some time after it read. A reader that cannot be sure to have read the
//! last store's value, or a later one, therefore gets all that the location has ever carried: more
//! than it should, so this may lose a finding and does not invent one. It is sure if, by the
//! launch's count of stores, the last store was done before the read began. And a store replaces
//! nothing, but adds, while an earlier write to its location may not be done, as that one's value
//! could come last. With one worker all is exact.
//!
//! What can be missed: a weak store replaces nothing.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};

use crate::check::access::Kind;
use crate::check::order::fence_sc::Fenced;
use crate::check::order::reach::Reach;

const SHARDS: usize = 64;
/// Writes noted at a location before it checks which of them are done.
const NOTED: usize = 8;

/// A write announced by a worker: its time of completion in the launch's count, or 0.
#[derive(Debug, Default)]
pub(super) struct Announced(AtomicU64);

impl Announced {
    /// Time at which it was done, if it is.
    pub(super) fn time(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Acquire)).filter(|&time| time != 0)
    }

    fn is_done(&self) -> bool {
        self.done_by(u64::MAX)
    }

    /// Returns true if it was done by `time`.
    fn done_by(&self, time: u64) -> bool {
        (1..=time).contains(&self.0.load(Ordering::Acquire))
    }
}

/// The latest announcements of a worker.
#[derive(Default)]
struct Worker {
    announced: Vec<Arc<Announced>>,
    /// The counter of workers that have announced something, if this one is counted.
    counted: Option<Arc<AtomicUsize>>,
}

thread_local! {
    static WORKER: RefCell<Worker> = const { RefCell::new(Worker { announced: Vec::new(), counted: None }) };
}

/// A location at which something was released.
#[derive(Debug)]
struct Location {
    /// Facts that its last store carries, and atomics after it.
    carried: Arc<Reach>,
    /// The store that replaced the earlier facts, if any, and all facts ever carried.
    replaced: Option<(Arc<Announced>, Arc<Reach>)>,
    /// Writes that may not be done yet.
    writes: Vec<Arc<Announced>>,
}

impl Location {
    fn add(&mut self, reach: &Arc<Reach>) {
        join(&mut self.carried, reach);
        if let Some((_, ever)) = &mut self.replaced {
            join(ever, reach);
        }
    }

    fn replace(&mut self, reach: Option<&Arc<Reach>>, by: &Arc<Announced>) {
        let new = reach.cloned().unwrap_or_default();
        let before = std::mem::replace(&mut self.carried, Arc::clone(&new));
        let mut ever = self.replaced.take().map_or(before, |(_, ever)| ever);
        join(&mut ever, &new);
        self.replaced = Some((Arc::clone(by), ever));
    }

    /// Facts that a read that began at `time` may have synchronised with.
    fn observed(&self, time: u64) -> &Arc<Reach> {
        match &self.replaced {
            Some((store, ever)) if !store.done_by(time) => ever,
            Some(_) | None => &self.carried,
        }
    }
}

fn join(into: &mut Arc<Reach>, from: &Arc<Reach>) {
    if !Arc::ptr_eq(into, from) {
        Arc::make_mut(into).join(from);
    }
}

/// Facts released at each location.
#[derive(Debug)]
pub(in crate::check) struct Locations {
    shards: [Mutex<HashMap<u64, Location>>; SHARDS],
    count: AtomicUsize,
    /// True if the order of blocks became too complex to be tracked exactly.
    has_coarse: AtomicBool,
    /// Number of times that a worker completed its announcements.
    time: AtomicU64,
    /// Marks of accesses behind a `fence.sc`.
    pub(super) fenced: Fenced,
    /// True if the program has any `fence.sc`.
    pub(in crate::check) has_fence_sc: bool,
    /// Number of workers with writes that may not be done, if the program has `fence.sc`.
    writing: Arc<AtomicUsize>,
}

impl Default for Locations {
    fn default() -> Self {
        let shards = std::array::from_fn(|_| Mutex::default());
        Self {
            shards,
            count: AtomicUsize::new(0),
            has_coarse: AtomicBool::new(false),
            time: AtomicU64::new(0),
            fenced: Fenced::default(),
            has_fence_sc: true,
            writing: Arc::default(),
        }
    }
}

impl Locations {
    fn shard(&self, address: u64) -> &Mutex<HashMap<u64, Location>> {
        &self.shards[(address >> 2) as usize % SHARDS]
    }

    /// Returns true if nothing has been released yet.
    pub(in crate::check) fn is_empty(&self) -> bool {
        fence(Ordering::Acquire);
        self.count.load(Ordering::Relaxed) == 0
    }

    /// The current time, for a read that is about to begin.
    pub(in crate::check) fn now(&self) -> u64 {
        self.time.load(Ordering::Acquire)
    }

    /// Announces a write that this worker is about to make.
    pub(super) fn announce(&self) -> Arc<Announced> {
        let announced = Arc::new(Announced::default());
        WORKER.with_borrow_mut(|worker| {
            if self.has_fence_sc && worker.counted.is_none() {
                self.writing.fetch_add(1, Ordering::AcqRel);
                worker.counted = Some(Arc::clone(&self.writing));
            }
            worker.announced.push(Arc::clone(&announced));
        });
        announced
    }

    /// Returns true if another worker has announced a write that is perhaps not done.
    pub(super) fn are_others_writing(&self) -> bool {
        let own = WORKER.with_borrow(|worker| worker.counted.as_ref().is_some_and(|at| Arc::ptr_eq(at, &self.writing)));
        self.writing.load(Ordering::Acquire) > usize::from(own)
    }

    /// Marks all announcements of this worker as done.
    pub(in crate::check) fn settle(&self) {
        WORKER.with_borrow_mut(|worker| {
            if !worker.announced.is_empty() {
                let time = self.time.fetch_add(1, Ordering::AcqRel) + 1;
                for write in worker.announced.drain(..) {
                    write.0.store(time, Ordering::Release);
                }
            }
            if let Some(counted) = worker.counted.take() {
                counted.fetch_sub(1, Ordering::AcqRel);
            }
        });
    }

    /// Returns true if anything [`note`](Self::note)d was coarse.
    pub(in crate::check) fn has_coarse(&self) -> bool {
        self.has_coarse.load(Ordering::Relaxed)
    }

    /// Notes what some warp or location knows.
    pub(in crate::check) fn note(&self, reach: &Reach) {
        if reach.is_coarse() {
            self.has_coarse.store(true, Ordering::Relaxed);
        }
    }

    /// Announces a strong write or atomic and what it releases, if anything.
    pub(in crate::check) fn write(&self, address: u64, kind: Kind, reach: Option<&Arc<Reach>>) {
        let is_atomic = kind == Kind::Atomic;
        if reach.is_none() && (is_atomic || self.is_empty()) {
            return;
        }
        let mut shard = self.shard(address).lock().unwrap_or_else(PoisonError::into_inner);
        let location = match shard.get_mut(&address) {
            Some(location) => location,
            None if reach.is_none() => return,
            None => {
                self.count.fetch_add(1, Ordering::Relaxed);
                shard.entry(address).or_insert(Location { carried: Arc::default(), replaced: None, writes: Vec::new() })
            }
        };
        if !is_atomic || location.writes.len() >= NOTED {
            location.writes.retain(|write| !write.is_done());
        }
        let announced = self.announce();
        if is_atomic || !location.writes.is_empty() {
            if let Some(reach) = reach {
                location.add(reach);
            }
        } else {
            location.replace(reach, &announced);
        }
        self.note(&location.carried);
        location.writes.push(announced);
        drop(shard);
        // The value is stored after this; a warp that reads it finds the location's reach.
        fence(Ordering::Release);
    }

    /// Facts that a strong read of a location may have synchronised with, if it began at `time`.
    pub(in crate::check) fn observed(&self, address: u64, time: u64) -> Option<Arc<Reach>> {
        if self.is_empty() {
            return None;
        }
        let shard = self.shard(address).lock().unwrap_or_else(PoisonError::into_inner);
        let reach = shard.get(&address)?.observed(time);
        (!reach.is_empty()).then(|| Arc::clone(reach))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::order::reach::{Extent, Moment};

    const PLACE: u64 = 64;

    fn release_by(block: u32) -> Arc<Reach> {
        Arc::new(Reach::of(block, 0, Extent { all: 1, ..Extent::default() }))
    }

    fn knows(reach: Option<&Arc<Reach>>, block: u32) -> bool {
        reach.is_some_and(|reach| reach.knows(Moment { block, warp: 0, tick: 0 }, 1).is_some())
    }

    #[test]
    fn a_store_replaces_what_an_earlier_one_carried() {
        let locations = Locations::default();
        locations.write(PLACE, Kind::Write, Some(&release_by(1)));
        locations.settle();
        locations.write(PLACE, Kind::Write, Some(&release_by(2)));
        locations.settle();
        let observed = locations.observed(PLACE, locations.now());
        assert!(!knows(observed.as_ref(), 1) && knows(observed.as_ref(), 2));
        locations.write(PLACE, Kind::Write, None);
        locations.settle();
        assert!(locations.observed(PLACE, locations.now()).is_none());
    }

    #[test]
    fn an_atomic_adds_to_what_a_store_carried() {
        let locations = Locations::default();
        locations.write(PLACE, Kind::Write, Some(&release_by(1)));
        locations.settle();
        locations.write(PLACE, Kind::Atomic, None);
        locations.write(PLACE, Kind::Atomic, Some(&release_by(2)));
        let observed = locations.observed(PLACE, locations.now());
        assert!(knows(observed.as_ref(), 1) && knows(observed.as_ref(), 2));
    }

    #[test]
    fn a_read_that_began_before_a_store_was_done_may_have_seen_what_was_there() {
        let locations = Locations::default();
        locations.write(PLACE, Kind::Write, Some(&release_by(1)));
        locations.settle();
        let early = locations.now();
        locations.write(PLACE, Kind::Write, Some(&release_by(2)));
        let announced = locations.now();
        locations.settle();
        for time in [early, announced] {
            assert!(knows(locations.observed(PLACE, time).as_ref(), 1));
        }
        assert!(!knows(locations.observed(PLACE, locations.now()).as_ref(), 1));
    }

    #[test]
    fn a_store_replaces_nothing_while_another_workers_may_come_after_it() {
        let locations = Locations::default();
        std::thread::scope(|scope| {
            scope.spawn(|| locations.write(PLACE, Kind::Write, Some(&release_by(1))));
        });
        locations.write(PLACE, Kind::Write, Some(&release_by(2)));
        locations.settle();
        let observed = locations.observed(PLACE, locations.now());
        assert!(knows(observed.as_ref(), 1) && knows(observed.as_ref(), 2));
    }
}
