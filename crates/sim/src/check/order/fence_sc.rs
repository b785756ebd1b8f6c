//! Fence-SC order between blocks, as [`sequential`](super::sequential) has it inside a block: which
//! of two `fence.sc` came first, where a value that was read, or the order of two writes, tells.
//!
//! A strong access behind a `fence.sc` leaves at its location what that fence covers; a strong
//! write of another warp that comes after it, by the order of the location's values, has overtaken
//! it, and the next `fence.sc` of the writer learns what was left. The fences have to be morally
//! strong: one whose scope ends at the block covers and learns nothing here.
//!
//! Between workers an access is left before it is performed, and a write counts as done some time
//! after it was: so a write may overtake an access that in truth came after it, which may lose a
//! finding, but misses none that came before. With one worker all is exact.
//!
//! Not followed: an access, or a write, that is ordered behind (before) another block's fence
//! instead of its own block's.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::check::order::locations::{Announced, Locations};
use crate::check::order::reach::{Reach, join};

const SHARDS: usize = 64;
/// Accesses that are told apart at one location: later ones join the last.
const MOST: usize = 16;
/// Block and warp of several.
const ANYONE: (u32, u32) = (u32::MAX, u32::MAX);
/// Writes of a warp that are looked up together.
const WRITES: usize = 64;

/// What an access behind a `fence.sc` has left at its location.
#[derive(Debug)]
struct Left {
    /// By the launch's count of stores.
    time: u64,
    /// Block and warp.
    by: (u32, u32),
    /// What the fence covers.
    reach: Arc<Reach>,
}

/// What accesses of a launch have left.
#[derive(Debug)]
pub(super) struct Fenced {
    shards: [Mutex<HashMap<u64, Vec<Left>>>; SHARDS],
    count: AtomicUsize,
}

impl Default for Fenced {
    fn default() -> Self {
        Self { shards: std::array::from_fn(|_| Mutex::default()), count: AtomicUsize::new(0) }
    }
}

impl Fenced {
    fn shard(&self, address: u64) -> &Mutex<HashMap<u64, Vec<Left>>> {
        &self.shards[(address >> 2) as usize % SHARDS]
    }

    /// An access that is about to be performed leaves what the fence before it covers.
    fn leave(&self, address: u64, time: u64, by: (u32, u32), reach: &Arc<Reach>) {
        let mut shard = self.shard(address).lock().unwrap_or_else(PoisonError::into_inner);
        let all = shard.entry(address).or_default();
        if all.iter().any(|left| left.by == by && Arc::ptr_eq(&left.reach, reach)) {
            return;
        }
        let is_full = all.len() >= MOST;
        match all.last_mut() {
            Some(last) if is_full => {
                last.by = ANYONE;
                Arc::make_mut(&mut last.reach).join(reach);
            }
            _ => all.push(Left { time, by, reach: Arc::clone(reach) }),
        }
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// What a write that was done at `time` has overtaken.
    fn overtaken(&self, address: u64, time: u64, by: (u32, u32), into: &mut Option<Arc<Reach>>) {
        let shard = self.shard(address).lock().unwrap_or_else(PoisonError::into_inner);
        for left in shard.get(&address).into_iter().flatten() {
            if left.time < time && left.by != by {
                join(into, Some(&left.reach));
            }
        }
    }
}

/// What a warp has to do with `fence.sc`.
#[derive(Debug, Default, Clone)]
pub(super) struct Sequence {
    /// What its last one covers.
    behind: Option<Arc<Reach>>,
    /// Where that was last left: who polls leaves the same each time, and the first is overtaken by
    /// more.
    left: Option<u64>,
    /// Strong writes that were perhaps not done when last looked at.
    writes: Vec<(u64, Arc<Announced>)>,
    /// What others have overtaken.
    overtaken: Option<Arc<Reach>>,
}

impl Sequence {
    /// A strong access is about to be performed.
    pub(super) fn access(&mut self, locations: &Locations, address: u64, by: (u32, u32)) {
        if let Some(behind) = self.behind.as_ref().filter(|_| self.left != Some(address)) {
            locations.fenced.leave(address, locations.now(), by, behind);
            self.left = Some(address);
        }
    }

    /// A strong write, or an atomic, is about to be performed.
    pub(super) fn write(&mut self, locations: &Locations, address: u64, by: (u32, u32), announced: &Arc<Announced>) {
        self.access(locations, address, by);
        if self.writes.len() >= WRITES {
            self.look(locations, by);
        }
        self.writes.push((address, Arc::clone(announced)));
    }

    /// Finds what the writes that are done have overtaken.
    fn look(&mut self, locations: &Locations, by: (u32, u32)) {
        let nothing = locations.fenced.count.load(Ordering::Acquire) == 0;
        let overtaken = &mut self.overtaken;
        self.writes.retain(|(address, announced)| {
            let Some(time) = announced.time() else { return true };
            if !nothing {
                locations.fenced.overtaken(*address, time, by, overtaken);
            }
            false
        });
    }

    /// A `fence.sc`, once all that its worker announced is done: what it learns.
    pub(super) fn fence(&mut self, locations: &Locations, by: (u32, u32)) -> Option<Arc<Reach>> {
        self.look(locations, by);
        self.overtaken.take()
    }

    /// What the fence covers.
    pub(super) fn cover(&mut self, reach: &Arc<Reach>) {
        join(&mut self.behind, Some(reach));
        self.left = None;
    }

    /// What a barrier passes on of it.
    pub(super) fn pass_on(&self, to: &mut Self) {
        if let Some(behind) = &self.behind {
            to.cover(behind);
        }
        join(&mut to.overtaken, self.overtaken.as_ref());
        to.writes.extend(self.writes.iter().cloned());
    }

    /// Whether there is nothing to it.
    pub(super) const fn is_nothing(&self) -> bool {
        self.behind.is_none() && self.writes.is_empty() && self.overtaken.is_none()
    }

    /// Whether its strong accesses leave anything.
    pub(super) const fn has_fenced(&self) -> bool {
        self.behind.is_some()
    }
}
