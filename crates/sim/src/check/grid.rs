//! Happens-before between blocks: the same release and acquire patterns as inside a block, at `.gpu` scope or wider.
//!
//! Agents that acquire are warps (a barrier passes on to the whole block what one warp acquired); a release by a warp
//! covers that warp's accesses and whatever of its block was ordered before it. Time is a tick per block.
//! What can be missed: after a named barrier or a release and acquire inside the block, a warp that releases counts as
//! knowing all warps of its block up to the latest tick that it learnt of any one of them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};

use super::access::{Lanes, Scope, Semantics};
use super::reach::{Grade, Moment, Reach};

const SHARDS: usize = 64;

/// What was released at each location, for all blocks of a launch.
#[derive(Debug)]
pub(super) struct Locations {
    shards: [Mutex<HashMap<u64, Arc<Reach>>>; SHARDS],
    count: AtomicUsize,
}

impl Default for Locations {
    fn default() -> Self {
        Self { shards: std::array::from_fn(|_| Mutex::default()), count: AtomicUsize::new(0) }
    }
}

impl Locations {
    fn shard(&self, address: u64) -> &Mutex<HashMap<u64, Arc<Reach>>> {
        &self.shards[(address >> 2) as usize % SHARDS]
    }

    fn join(&self, address: u64, reach: &Arc<Reach>) {
        let mut shard = self.shard(address).lock().unwrap_or_else(PoisonError::into_inner);
        match shard.get_mut(&address) {
            Some(known) if Arc::ptr_eq(known, reach) => {}
            Some(known) => Arc::make_mut(known).join(reach),
            None => {
                shard.insert(address, Arc::clone(reach));
                self.count.fetch_add(1, Ordering::Relaxed);
            }
        }
        drop(shard);
        // The value is stored after this; whoever reads it finds the location's reach.
        fence(Ordering::Release);
    }

    fn get(&self, address: u64) -> Option<Arc<Reach>> {
        fence(Ordering::Acquire);
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.shard(address).lock().unwrap_or_else(PoisonError::into_inner).get(&address).cloned()
    }

    fn is_empty(&self) -> bool {
        fence(Ordering::Acquire);
        self.count.load(Ordering::Relaxed) == 0
    }
}

/// Who knows what of other blocks: common to the block, and beyond that by warp.
#[derive(Debug, Default, Clone)]
struct Arrivals {
    all: u32,
    known: Option<Arc<Reach>>,
    fenced: Option<Arc<Reach>>,
    pending: Option<Arc<Reach>>,
}

/// One block's side of the order between blocks.
#[derive(Debug)]
pub(super) struct GridOrder {
    enabled: bool,
    block: u32,
    tick: u32,
    /// Whether any access carries the present tick.
    dirty: bool,
    /// Per warp: accesses of the whole block below this tick are ordered before it.
    all: [u32; 32],
    /// Per warp: what it knows of other blocks.
    known: [Option<Arc<Reach>>; 32],
    /// What a warp's last fence gives its next strong write to release.
    fenced: [Option<Arc<Reach>>; 32],
    /// What a warp's strong reads saw and its next fence acquires.
    pending: [Option<Arc<Reach>>; 32],
    /// Warps with any of these.
    busy: u32,
    arrivals: [Arrivals; 16],
}

fn join(into: &mut Option<Arc<Reach>>, from: Option<&Arc<Reach>>) {
    match (into, from) {
        (_, None) => {}
        (into @ None, Some(from)) => *into = Some(Arc::clone(from)),
        (Some(known), Some(from)) if Arc::ptr_eq(known, from) => {}
        (Some(known), Some(from)) => Arc::make_mut(known).join(from),
    }
}

fn graded(reach: &Arc<Reach>, scope: Scope) -> Arc<Reach> {
    if scope.spans_blocks() { Arc::clone(reach) } else { Arc::new(reach.narrowed()) }
}

impl GridOrder {
    pub(super) fn new() -> Self {
        Self {
            enabled: false,
            block: 0,
            tick: 0,
            dirty: false,
            all: [0; 32],
            known: [const { None }; 32],
            fenced: [const { None }; 32],
            pending: [const { None }; 32],
            busy: 0,
            arrivals: std::array::from_fn(|_| Arrivals::default()),
        }
    }

    pub(super) fn begin(&mut self, block: u32, enabled: bool) {
        self.enabled = enabled;
        self.block = block;
        self.tick = 0;
        self.dirty = false;
        self.all = [0; 32];
        for warp in Lanes(std::mem::take(&mut self.busy)) {
            let w = warp as usize;
            (self.known[w], self.fenced[w], self.pending[w]) = (None, None, None);
        }
        self.arrivals.fill(Arrivals::default());
    }

    /// Where in its block an access by `warp` stands.
    pub(super) fn moment(&mut self, warp: u32) -> Moment {
        self.dirty = true;
        Moment { block: self.block, warp, tick: self.tick }
    }

    pub(super) const fn tick(&self) -> u32 {
        self.tick
    }

    /// How firmly `warp` knows that `moment` of another block happened before.
    pub(super) fn knows(&self, warp: u32, moment: Moment) -> Option<Grade> {
        self.known[warp as usize].as_ref()?.knows(moment)
    }

    /// Whether the warp knows anything of other blocks.
    pub(super) const fn is_informed(&self, warp: u32) -> bool {
        self.known[warp as usize].is_some()
    }

    /// A tick above that of every access so far.
    fn stamp(&mut self) -> u32 {
        if self.dirty {
            self.tick += 1;
            self.dirty = false;
        }
        self.tick
    }

    /// What a release by `warp` gives away.
    fn release_reach(&mut self, warp: u32) -> Reach {
        let own = self.stamp();
        let w = warp as usize;
        let mut reach = Reach::of(self.block, warp, self.all[w], own);
        if let Some(known) = &self.known[w] {
            reach.join(known);
        }
        reach
    }

    /// A fence by a warp.
    pub(super) fn fence(&mut self, warp: u32, scope: Scope) {
        if !self.enabled {
            return;
        }
        let w = warp as usize;
        if let Some(pending) = self.pending[w].take() {
            join(&mut self.known[w], Some(&graded(&pending, scope)));
            if !scope.spans_blocks() {
                self.pending[w] = Some(pending);
            }
        }
        let reach = Arc::new(self.release_reach(warp));
        if scope.spans_blocks() {
            self.fenced[w] = Some(reach);
        } else {
            join(&mut self.fenced[w], Some(&graded(&reach, scope)));
        }
        self.busy |= 1 << warp;
    }

    /// Whether a relaxed write by `warp` would release anything.
    pub(super) const fn has_fenced(&self, warp: u32) -> bool {
        self.fenced[warp as usize].is_some()
    }

    /// Whether a strong read could acquire anything.
    pub(super) fn may_acquire(&self, locations: &Locations) -> bool {
        self.enabled && !locations.is_empty()
    }

    /// A strong write or atomic; call before its value can be seen.
    pub(super) fn release(
        &mut self,
        locations: &Locations,
        warp: u32,
        address: u64,
        semantics: Semantics,
        scope: Scope,
    ) {
        if !self.enabled {
            return;
        }
        let fenced = self.fenced[warp as usize].clone();
        let mut reach = fenced.map(|fenced| graded(&fenced, scope));
        if semantics.releases() {
            let own = graded(&Arc::new(self.release_reach(warp)), scope);
            join(&mut reach, Some(&own));
        }
        if let Some(reach) = reach {
            locations.join(address, &reach);
        }
    }

    /// A strong read or atomic; call once its value is read.
    pub(super) fn acquire(
        &mut self,
        locations: &Locations,
        warp: u32,
        address: u64,
        semantics: Semantics,
        scope: Scope,
    ) {
        let Some(reach) = locations.get(address) else { return };
        let w = warp as usize;
        self.busy |= 1 << warp;
        let reach = graded(&reach, scope);
        if semantics.acquires() {
            join(&mut self.known[w], Some(&reach));
        } else {
            join(&mut self.pending[w], Some(&reach));
        }
    }

    /// A warp arrives at a barrier.
    pub(super) fn arrive(&mut self, barrier: u32, warp: u32) {
        if !self.enabled {
            return;
        }
        let now = self.stamp();
        let w = warp as usize;
        let arrivals = &mut self.arrivals[barrier as usize % 16];
        arrivals.all = arrivals.all.max(self.all[w]).max(now);
        if self.busy & 1 << warp != 0 {
            join(&mut arrivals.known, self.known[w].as_ref());
            join(&mut arrivals.fenced, self.fenced[w].as_ref());
            join(&mut arrivals.pending, self.pending[w].as_ref());
        }
    }

    /// A barrier completes, and `receivers` go on.
    pub(super) fn complete(&mut self, barrier: u32, receivers: u32) {
        if !self.enabled {
            return;
        }
        let arrivals = std::mem::take(&mut self.arrivals[barrier as usize % 16]);
        let any = arrivals.known.is_some() || arrivals.fenced.is_some() || arrivals.pending.is_some();
        for warp in Lanes(receivers) {
            let w = warp as usize;
            self.learn_block(warp, arrivals.all);
            if any {
                join(&mut self.known[w], arrivals.known.as_ref());
                join(&mut self.fenced[w], arrivals.fenced.as_ref());
                join(&mut self.pending[w], arrivals.pending.as_ref());
                self.busy |= 1 << warp;
            }
        }
    }

    /// A warp learnt of its own block's accesses below `tick`.
    fn learn_block(&mut self, warp: u32, tick: u32) {
        let all = &mut self.all[warp as usize];
        *all = (*all).max(tick);
    }
}
