//! Happens-before between blocks: the same release and acquire patterns as inside a block, at
//! `.gpu` scope or wider.
//!
//! Agents that acquire are the lanes that read, until a warp sync tells the others (see
//! [`held`](super::held)); a barrier passes on to the whole block what one warp acquired. A release
//! by a warp covers that warp's accesses and whatever of its block was ordered before it. Time is a
//! tick per block. What can be missed: after a named barrier or a release and acquire inside the
//! block, a warp that releases counts as knowing all warps of its block up to the latest tick that
//! it learnt of any one of them; a warp sync, of all lanes or some, gathers all lanes, for all
//! accesses until the block's next tick; a relaxed read by one lane counts for an acquire of the
//! same location by another.

use std::collections::HashMap;
use std::sync::Arc;

use warpfold_ptx::{Order, Scope};

use crate::check::access::{FenceKind, Kind, Lanes};
use crate::check::order::cluster::{Cluster, Phase};
use crate::check::order::fence_sc::Sequence;
use crate::check::order::fenced::Fenced;
use crate::check::order::held::Held;
use crate::check::order::locations::Locations;
use crate::check::order::pending::Pending;
use crate::check::order::reach::{Extent, Grade, Moment, Reach, join};

/// Facts of the warps that have arrived at a barrier.
#[derive(Debug, Default, Clone)]
struct Arrivals {
    all: u32,
    known: Option<Arc<Reach>>,
    fenced: Option<Arc<Reach>>,
    pending: Option<Arc<Reach>>,
    sequence: Sequence,
}

/// One block's side of the order between blocks.
#[derive(Debug)]
pub(in crate::check) struct GridOrder {
    pub(super) enabled: bool,
    pub(super) block: u32,
    pub(super) cluster: Cluster,
    tick: u32,
    /// True if any access carries the present tick.
    dirty: bool,
    /// Accesses of the block below this tick lie before a proxy fence.
    proxy_fence: u32,
    /// A thread has executed `griddepcontrol.launch_dependents`.
    dependents_may_run: bool,
    /// Per warp: accesses of the whole block below this tick are ordered before it.
    pub(super) all: [u32; 32],
    /// Per warp: its lanes' accesses below this tick are gathered.
    pub(super) gathered: [u32; 32],
    /// Per warp: its lanes.
    pub(super) lanes: [u32; 32],
    /// Per warp: what it knows of other blocks.
    pub(super) known: [Held; 32],
    pub(super) fenced: [Fenced; 32],
    /// Facts that a warp's strong reads saw and its next fence acquires.
    pending: [Pending<Arc<Reach>>; 32],
    /// State of each warp in Fence-SC order.
    sequence: [Sequence; 32],
    /// Facts that strong reads saw before a barrier that the warp has passed, and no fence has
    /// acquired.
    handed: [Option<Arc<Reach>>; 32],
    /// Warps with any of these.
    pub(super) busy: u32,
    /// Facts that a warp has ever released at a location: its later stores there carry them on.
    released: HashMap<(u32, u64), Arc<Reach>>,
    /// Facts that relaxed reads of a warp saw at a location: for an acquire there by the same warp.
    observed: HashMap<(u32, u64), Arc<Reach>>,
    /// Start of the strong read in progress.
    read_began: Option<u64>,
    arrivals: [Arrivals; 16],
    /// Facts that arrivals in the present phase of the cluster's barrier release.
    pub(super) phase: Phase,
    /// Facts that the whole cluster released in the phase before.
    pub(super) past: Phase,
}

impl GridOrder {
    pub(in crate::check) fn new() -> Self {
        Self {
            enabled: false,
            block: 0,
            cluster: Cluster::default(),
            tick: 0,
            dirty: false,
            proxy_fence: 0,
            dependents_may_run: false,
            all: [0; 32],
            gathered: [0; 32],
            lanes: [0; 32],
            known: std::array::from_fn(|_| Held::default()),
            fenced: std::array::from_fn(|_| Fenced::default()),
            pending: std::array::from_fn(|_| Pending::default()),
            sequence: std::array::from_fn(|_| Sequence::default()),
            handed: [const { None }; 32],
            busy: 0,
            released: HashMap::new(),
            observed: HashMap::new(),
            read_began: None,
            arrivals: std::array::from_fn(|_| Arrivals::default()),
            phase: Phase::default(),
            past: Phase::default(),
        }
    }

    pub(in crate::check) fn begin(&mut self, block: u32, threads: u32, enabled: bool) {
        self.enabled = enabled;
        self.block = block;
        self.cluster.begin();
        self.lanes = std::array::from_fn(|warp| {
            let count = threads.saturating_sub(warp as u32 * 32).min(32);
            u32::MAX.checked_shr(32 - count).unwrap_or(0)
        });
        self.tick = 0;
        self.dirty = false;
        self.proxy_fence = 0;
        self.dependents_may_run = false;
        self.all = [0; 32];
        self.gathered = [0; 32];
        for warp in Lanes(std::mem::take(&mut self.busy)) {
            let w = warp as usize;
            (self.known[w], self.fenced[w], self.pending[w]) = Default::default();
            (self.sequence[w], self.handed[w]) = (Sequence::default(), None);
        }
        self.arrivals.fill(Arrivals::default());
        (self.phase, self.past) = (Phase::default(), Phase::default());
        self.released.clear();
        self.observed.clear();
        self.read_began = None;
    }

    /// Position of an access by `warp` in its block.
    pub(in crate::check) fn moment(&mut self, warp: u32) -> Moment {
        self.dirty = true;
        Moment { block: self.block, warp, tick: self.tick }
    }

    pub(in crate::check) const fn tick(&self) -> u32 {
        self.tick
    }

    /// Strength with which the lanes of `by` in `warp` know that an access by any of `lanes` at
    /// `moment` of another block happened before: it is enough if one of them does.
    pub(in crate::check) fn knows(&self, (warp, by): (u32, u32), moment: Moment, lanes: u32) -> Option<Grade> {
        self.known[warp as usize].knows(by, moment, lanes)
    }

    /// Returns true if all lanes of `by` in `warp` know that all accesses at `moment` happened
    /// before.
    pub(in crate::check) fn all_know(&self, (warp, by): (u32, u32), moment: Moment) -> bool {
        let mut known = self.known[warp as usize].of_each(by);
        known.any(|reach| reach.knows(moment, u32::MAX) == Some(Grade::Wide))
    }

    /// Returns true if `warp` would know that the accesses of `lanes` at `moment` happened before,
    /// had a thread fenced between its strong read and the barrier that came after it.
    pub(in crate::check) fn lacks_acquire(&self, warp: u32, moment: Moment, lanes: u32) -> bool {
        let handed = self.handed[warp as usize].as_ref();
        handed.is_some_and(|reach| reach.knows(moment, lanes) == Some(Grade::Wide))
    }

    /// Returns true if the warp knows anything of other blocks.
    pub(in crate::check) fn is_informed(&self, warp: u32) -> bool {
        !self.known[warp as usize].is_nothing()
    }

    /// Returns true if any warp knows anything of other blocks.
    pub(in crate::check) fn knows_of_others(&self) -> bool {
        self.known.iter().any(|known| !known.is_nothing())
    }

    /// Returns true if the block has let launches that depend on this one begin.
    pub(in crate::check) const fn dependents_may_run(&self) -> bool {
        self.dependents_may_run
    }

    /// The block lets dependent launches begin; whether it does for the first time, and knows
    /// nothing of other blocks yet.
    pub(in crate::check) fn launch_dependents(&mut self) -> bool {
        if std::mem::replace(&mut self.dependents_may_run, true) {
            return false;
        }
        self.stamp();
        !self.knows_of_others()
    }

    /// A tick above that of every access so far.
    pub(super) fn stamp(&mut self) -> u32 {
        if self.dirty {
            self.tick += 1;
            self.dirty = false;
        }
        self.tick
    }

    /// A fence between the proxies; the tick below which it covers the block's accesses.
    pub(in crate::check) fn proxy_fence(&mut self) -> u32 {
        self.proxy_fence = self.stamp();
        self.proxy_fence
    }

    /// The tick below which proxy fences cover the block's accesses.
    pub(in crate::check) const fn proxy_fence_tick(&self) -> u32 {
        self.proxy_fence
    }

    /// Extent of the block's accesses that a release by `lanes` of `warp` covers.
    fn extent(&mut self, warp: u32, lanes: u32) -> Extent {
        let own = self.stamp();
        let w = warp as usize;
        Extent { all: self.all[w], gathered: self.gathered[w].min(own), own, lanes }
    }

    /// An extent of this block together with what `lanes` of `warp` know of others.
    pub(super) fn with_known(&self, (warp, lanes): (u32, u32), extent: Extent) -> Arc<Reach> {
        let mut reach = Reach::of(self.block, warp, extent);
        if let Some(known) = self.known[warp as usize].of(lanes) {
            reach.join(&known);
        }
        if let Some(told) = self.sequence[warp as usize].told() {
            reach.join(&told);
        }
        Arc::new(reach)
    }

    /// Lanes of a warp learn what another block has released.
    pub(super) fn learn(&mut self, warp: u32, lanes: u32, reach: Option<&Arc<Reach>>) {
        let w = warp as usize;
        self.known[w].learn(lanes, self.lanes[w], reach);
        if let Some(reach) = reach {
            self.sequence[w].hear(reach);
        }
    }

    /// A `.sync` instruction of lanes of a warp.
    pub(in crate::check) fn warp_sync(&mut self, warp: u32, lanes: u32) {
        let w = warp as usize;
        self.gathered[w] = self.tick + u32::from(self.dirty);
        if self.busy & 1 << warp != 0 {
            self.fenced[w].gather();
            self.known[w].share_with(lanes, self.lanes[w]);
            self.pending[w].share_with(lanes);
        }
    }

    /// A fence by some lanes of a warp.
    pub(in crate::check) fn fence(
        &mut self,
        locations: &Locations,
        (warp, lanes): (u32, u32),
        scope: Scope,
        kind: FenceKind,
    ) {
        if !self.enabled {
            return;
        }
        let (w, whole) = (warp as usize, self.lanes[warp as usize]);
        if kind.acquires()
            && let Some((by, reach)) = self.pending[w].acquire(lanes)
        {
            let acquired = self.cluster.acquired(&reach, scope);
            self.learn(warp, by, Some(&acquired));
            if scope == Scope::Block || self.cluster.ends(scope) {
                self.pending[w].see(by, &reach);
            }
        }
        let is_sequential = kind == FenceKind::Sequential && scope != Scope::Block;
        if is_sequential {
            locations.settle();
            let learnt = self.sequence[w].fence(locations, (self.block, warp));
            self.learn(warp, lanes, learnt.as_ref());
        }
        if !kind.releases() {
            return;
        }
        self.look_at_writes(locations, warp);
        let extent = self.extent(warp, lanes);
        if is_sequential {
            let covered = self.with_known((warp, lanes), extent);
            self.sequence[w].cover(&covered);
        }
        if scope == Scope::Block || self.cluster.ends(scope) {
            let extent = if scope != Scope::Block { extent } else { extent.gather() };
            let known = self.with_known((warp, lanes), extent);
            let given = self.cluster.given(&known, scope);
            self.fenced[w].join_others(Some(&given));
        } else {
            let own = self.fenced[w].own.join(extent);
            // Other lanes may have fenced what these do not know.
            let mut others = self.known[w].of(lanes);
            if lanes & whole != whole {
                join(&mut others, self.fenced[w].others.as_ref());
            }
            join(&mut others, self.sequence[w].told().as_ref());
            self.fenced[w] = Fenced { own, others, whole: None };
        }
        self.busy |= 1 << warp;
    }

    /// Returns true if a relaxed write by `warp` would release anything.
    pub(in crate::check) fn has_fenced(&self, warp: u32) -> bool {
        self.busy & 1 << warp != 0 && !self.fenced[warp as usize].is_nothing()
    }

    /// Returns true if a strong read could acquire anything, or a relaxed store replace anything.
    pub(in crate::check) fn has_released(&self, locations: &Locations) -> bool {
        self.enabled && !locations.is_empty()
    }

    /// A strong read is about to begin.
    pub(in crate::check) fn begin_read(&mut self, locations: &Locations) {
        self.read_began = self.enabled.then(|| locations.now());
    }

    /// Returns true if a strong access by `warp` comes after a `fence.sc`.
    pub(in crate::check) const fn is_behind_fence_sc(&self, warp: u32) -> bool {
        self.sequence[warp as usize].has_fenced()
    }

    /// A strong read of one location, before it reads.
    pub(in crate::check) fn read_behind_fence_sc(&mut self, locations: &Locations, warp: u32, address: u64) {
        self.sequence[warp as usize].access(locations, address, (self.block, warp));
    }

    /// A strong write or atomic of one location, before its value can be seen.
    pub(in crate::check) fn write_near_fence_sc(&mut self, locations: &Locations, warp: u32, address: u64) {
        if self.enabled {
            self.sequence[warp as usize].write(locations, address, (self.block, warp), &locations.announce());
            self.busy |= 1 << warp;
        }
    }

    /// A strong read of one location has read.
    pub(in crate::check) fn read_near_fence_sc(&mut self, locations: &Locations, warp: u32, address: u64) {
        if self.enabled {
            self.sequence[warp as usize].read(locations, address, (self.block, warp));
            self.busy |= 1 << warp;
        }
    }

    /// Finds what the warp's writes have overtaken, for a release.
    pub(in crate::check) fn look_at_writes(&mut self, locations: &Locations, warp: u32) {
        if self.enabled && locations.has_fence_sc {
            self.sequence[warp as usize].look(locations, (self.block, warp));
        }
    }

    /// The strong read is over.
    pub(in crate::check) const fn end_read(&mut self) {
        self.read_began = None;
    }

    /// A strong write or atomic by some lanes; call before its value can be seen.
    pub(in crate::check) fn release(
        &mut self,
        locations: &Locations,
        (warp, lanes, address): (u32, u32, u64),
        kind: Kind,
        semantics: Order,
        scope: Scope,
    ) {
        if !self.enabled {
            return;
        }
        let fenced = self.fenced[warp as usize].given(self.block, warp, lanes);
        let mut reach = fenced.map(|fenced| self.cluster.given(&fenced, scope));
        if semantics.releases() {
            self.look_at_writes(locations, warp);
            let extent = self.extent(warp, lanes);
            let known = self.with_known((warp, lanes), extent);
            join(&mut reach, Some(&self.cluster.given(&known, scope)));
        }
        if kind == Kind::Write && !self.released.is_empty() {
            let before = self.released.get(&(warp, address)).map(|before| self.cluster.given(before, scope));
            join(&mut reach, before.as_ref());
        }
        locations.write(address, kind, reach.as_ref());
        if let Some(reach) = reach
            && semantics.releases()
        {
            self.released.insert((warp, address), reach);
        }
    }

    /// A strong read or atomic by some lanes; call once its value is read.
    pub(in crate::check) fn acquire(
        &mut self,
        locations: &Locations,
        (warp, lanes, address): (u32, u32, u64),
        semantics: Order,
        scope: Scope,
    ) {
        let w = warp as usize;
        let reach = locations.observed(address, self.read_began.unwrap_or(0));
        let reach = reach.map(|reach| self.cluster.taken(&reach, scope));
        if semantics.acquires() {
            let observed = if self.observed.is_empty() { None } else { self.observed.remove(&(warp, address)) };
            // It is this access that has to be morally strong with the release.
            for reach in reach.iter().chain(&observed) {
                let acquired = self.cluster.acquired(reach, scope);
                self.learn(warp, lanes, Some(&acquired));
            }
            self.known[w].parts().for_each(|known| locations.note(known));
        } else if let Some(reach) = &reach {
            self.pending[w].see(lanes, reach);
            match self.observed.get_mut(&(warp, address)) {
                Some(known) if Arc::ptr_eq(known, reach) => {}
                Some(known) => Arc::make_mut(known).join(reach),
                None => {
                    self.observed.insert((warp, address), Arc::clone(reach));
                }
            }
        }
        self.busy |= 1 << warp;
    }

    /// Returns true if any warp knows that `moment` happened before.
    pub(in crate::check) fn any_knows(&self, moment: Moment) -> bool {
        self.known.iter().flat_map(Held::parts).any(|known| known.knows(moment, 0).is_some())
    }

    /// A warp arrives at a barrier.
    pub(in crate::check) fn arrive(&mut self, barrier: u32, warp: u32) {
        if !self.enabled {
            return;
        }
        let now = self.stamp();
        let w = warp as usize;
        self.gathered[w] = now;
        let arrivals = &mut self.arrivals[barrier as usize % 16];
        arrivals.all = arrivals.all.max(self.all[w]).max(now);
        if self.busy & 1 << warp != 0 {
            self.fenced[w].gather();
            self.known[w].share();
            join(&mut arrivals.known, self.known[w].of_all());
            join(&mut arrivals.fenced, self.fenced[w].given(self.block, warp, u32::MAX).as_ref());
            join(&mut arrivals.pending, self.pending[w].seen());
            self.sequence[w].pass_on(&mut arrivals.sequence);
        }
    }

    /// A barrier completes, and `receivers` go on.
    pub(in crate::check) fn complete(&mut self, barrier: u32, receivers: u32) {
        if !self.enabled {
            return;
        }
        let arrivals = std::mem::take(&mut self.arrivals[barrier as usize % 16]);
        let Arrivals { known, fenced, pending, sequence, .. } = &arrivals;
        let any = known.is_some() || fenced.is_some() || pending.is_some() || !sequence.is_nothing();
        for warp in Lanes(receivers) {
            let w = warp as usize;
            self.learn_block(warp, arrivals.all);
            if any {
                self.known[w].learn(u32::MAX, self.lanes[w], known.as_ref());
                self.fenced[w].join_others(fenced.as_ref());
                if let Some(pending) = pending {
                    self.pending[w].see(u32::MAX, pending);
                }
                let handed = pending.as_ref().map(|pending| self.cluster.acquired(pending, Scope::Gpu));
                join(&mut self.handed[w], handed.as_ref());
                sequence.pass_on(&mut self.sequence[w]);
                self.busy |= 1 << warp;
            }
        }
    }

    /// A warp learnt of its own block's accesses below `tick`.
    pub(super) fn learn_block(&mut self, warp: u32, tick: u32) {
        let all = &mut self.all[warp as usize];
        *all = (*all).max(tick);
    }
}
