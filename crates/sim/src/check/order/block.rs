//! Happens-before inside one block, from warp syncs, barriers, fences, releases and acquires.
//!
//! Vector clocks as in FastTrack (Flanagan and Freund, 2009), with one change: a block runs on one
//! host thread, so its accesses have a total order of observation, and one counter serves all warps
//! as their clock. Each record (a warp at an instruction, between two of its releases) takes the
//! next number; "warp `v` is known up to `n`" means that `v`'s records below `n` happened before.
//! An instruction executed again by the same warp shares its record until that warp releases
//! something. A barrier of the whole block raises a floor below which everything is ordered.
//!
//! Agents are warps towards other warps, and lanes inside their warp. What can be missed:
//! - a release counts for lanes that the releasing lane gathered only by a sync of a part of the
//!   warp; what an acquire counts for is in [`unshared`](super::unshared);
//! - a block barrier counts for all lanes of a warp that takes part, and at a barrier without a
//!   count an exited warp counts as one that arrived;
//! - a barrier carries along a fence (towards a later strong write by another warp) and a strong
//!   read (towards a later fence by another warp), and a warp sync a fence, which the ISA promises
//!   less clearly;
//! - when the records run out ([`MAX_CONTEXTS`] since the last whole-block barrier) the block
//!   forgets all of them; the report says so.
//!
//! What the barriers of the block and of its cluster pass on is in [`barriers`](super::barriers).

use super::barriers::{Arrivals, BARRIERS};
use crate::check::access::{Kind, Lanes};
use crate::check::findings::Side;
use crate::check::order::clock::{Clock, Known, NOTHING, PROXIED, join};
use crate::check::order::flags::Flags;
use crate::check::order::observed::Observed;
use crate::check::order::pending::Pending;
use crate::check::order::phases::Barriers;
use crate::check::order::sequential::Sequential;
use crate::check::order::unshared::Unshared;
use crate::check::shared::marks::Marks;

// THRESHOLD: the block forgets what it did to shared memory, which a finding says; tested by
// crates/sim/src/check/tests/limits.rs::a_block_that_runs_out_of_records_says_so_once_forgets_and_goes_on
/// Records kept at a time.
pub(crate) const MAX_CONTEXTS: usize = 1 << 16;
// THRESHOLD: numbering restarts; tested by
// crates/sim/src/check/tests/limits.rs::numbering_that_starts_anew_loses_no_order_and_no_race and
// crates/sim/src/check/tests/limits.rs::numbering_that_starts_anew_at_a_barrier_keeps_named_barriers_working
/// Numbers below this fit into the shadow's packed records.
const MAX_ID: u32 = (1 << 19) - 2;
const CACHED: usize = 8;
/// The accesses that one record stands for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Context {
    pub(crate) instr: u32,
    pub(crate) kind: Kind,
    /// Bytes of the scalars that it accesses, 0 if unknown.
    pub(crate) element: u32,
    /// Issuing warp and lane of a bulk copy, whose record is that of an agent.
    pub(crate) by: Option<(u32, u32)>,
}

/// Order of two accesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ordered {
    /// They synchronise.
    Yes,
    /// Ordered by lockstep alone, through a lane that released for others of its warp.
    InLockstep,
    /// Acquired by another lane of the warp, and ordered before this lane by lockstep alone.
    Unshared,
    /// Not ordered.
    No,
}

/// The clocks of one block.
#[derive(Debug)]
pub(crate) struct BlockOrder {
    /// The next record.
    pub(super) next: u32,
    /// Records below this number happened before everything that is still to come.
    pub(super) floor: u32,
    /// Number of renumberings.
    pub(super) generation: u32,
    contexts: Vec<Context>,
    /// The record that `contexts` starts with.
    contexts_base: u32,
    cache: Box<[[(u32, u32); CACHED]; 32]>,
    pub(super) warps: u32,
    pub(super) lanes: [u32; 32],
    /// Records of the warp below this number were (or may have been) released, and take no further
    /// accesses.
    pub(super) event: [u32; 32],
    /// Records of the warp below this number are ordered before all of its lanes.
    pub(super) synced: [u32; 32],
    /// `seen[w]`: the clock of warp `w` for the other warps; only valid if `informed` has its bit.
    pub(in crate::check) seen: Box<[Clock; 32]>,
    pub(in crate::check) informed: u32,
    /// Clocks that only some lanes of a warp have acquired.
    pub(in crate::check) unshared: Unshared,
    /// True while a warp as a whole accesses memory: the clock of any of its lanes counts.
    pub(in crate::check) is_collective: bool,
    /// The newest record of each warp, accesses to global memory included.
    pub(super) last: [u32; 32],
    /// `lane_clocks[w][a][b]`: records of lane `b` that happened before lane `a`; valid where
    /// `lane_valid` has `w`'s bit.
    lane_clocks: Vec<[[u32; 32]; 32]>,
    lane_valid: u32,
    pub(super) arrivals: Vec<Arrivals>,
    /// True if an arrival of the present phase of the cluster's barrier released nothing.
    pub(super) phase_is_relaxed: bool,
    /// Clock of each warp at its last fence, released by its next strong write.
    pub(super) fenced: [Option<Box<Clock>>; 32],
    /// Clock that each warp's strong reads saw, acquired by its next fence.
    pub(super) pending: [Pending<Box<Clock>>; 32],
    pub(super) flags: Flags,
    /// Fence-SC order of the block.
    pub(super) sequential: Sequential,
    /// Strong writes of shared memory that strong reads have observed.
    pub(in crate::check) observed: Observed,
    /// Clocks that mbarriers pass on.
    pub(in crate::check) barriers: Barriers,
    /// Records of each warp below this number lie before a proxy fence that every warp knows of.
    pub(in crate::check) proxied: [u32; 32],
    /// The first record of the block.
    pub(in crate::check) block_base: u32,
    /// Records of accesses by the async proxy.
    pub(in crate::check) proxy_records: Marks,
    /// Records of accesses by whole warps: they count for every lane.
    pub(in crate::check) collective: Marks,
    /// True if anything but whole-block barriers has ever ordered warps here.
    pub(in crate::check) partial_order: bool,
    /// True if records ran out, and the block forgot them.
    has_forgotten: bool,
    /// True if some access to global memory carries the next number.
    is_stamped: bool,
}

impl BlockOrder {
    pub(crate) fn new() -> Self {
        Self {
            next: 1,
            floor: 1,
            generation: 0,
            contexts: Vec::new(),
            contexts_base: 1,
            cache: Box::new([[(0, 0); CACHED]; 32]),
            warps: 0,
            lanes: [0; 32],
            event: [0; 32],
            synced: [0; 32],
            seen: Box::new([NOTHING; 32]),
            informed: 0,
            unshared: Unshared::default(),
            is_collective: false,
            last: [0; 32],
            lane_clocks: Vec::new(),
            lane_valid: 0,
            arrivals: vec![Arrivals::NONE; BARRIERS + 2],
            phase_is_relaxed: false,
            fenced: [const { None }; 32],
            pending: std::array::from_fn(|_| Pending::default()),
            flags: Flags::default(),
            sequential: Sequential::default(),
            observed: Observed::default(),
            barriers: Barriers::default(),
            proxied: [0; 32],
            block_base: 1,
            proxy_records: Marks::default(),
            collective: Marks::default(),
            partial_order: false,
            has_forgotten: false,
            is_stamped: false,
        }
    }

    /// Starts a block of `threads` threads; forgets the previous one.
    pub(crate) fn begin(&mut self, threads: u32) {
        self.forget();
        self.block_base = self.next;
        self.proxied = [0; 32];
        self.barriers.clear();
        self.proxy_records.begin(self.next);
        self.collective.begin(self.next);
        self.warps = 0;
        self.lanes = [0; 32];
        for warp in 0..threads.div_ceil(32).min(32) {
            let count = (threads - warp * 32).min(32);
            self.warps |= 1 << warp;
            self.lanes[warp as usize] = u32::MAX >> (32 - count);
        }
        self.forget_locations();
    }

    fn forget_locations(&mut self) {
        self.flags.clear();
        self.sequential.clear();
        self.fenced.fill(None);
        self.pending.fill(Pending::default());
        self.arrivals.fill(Arrivals::NONE);
    }

    pub(crate) const fn floor(&self) -> u32 {
        self.floor
    }

    pub(crate) const fn generation(&self) -> u32 {
        self.generation
    }

    pub(crate) const fn partial_order(&self) -> bool {
        self.partial_order
    }

    /// Orders everything recorded so far before everything to come.
    pub(super) fn forget(&mut self) {
        for warp in Lanes(self.informed) {
            let seen = &self.seen[warp as usize][PROXIED..];
            for (all, one) in self.proxied.iter_mut().zip(seen) {
                *all = (*all).max(one.some);
            }
        }
        self.share_proxied();
        self.close();
        self.floor = self.next;
        self.contexts.clear();
        self.contexts_base = self.next;
        self.informed = 0;
        self.lane_valid = 0;
        // Half of the numbers stay in reserve, so that renumbering happens between blocks or at
        // barriers.
        if self.next > MAX_ID / 2 {
            self.renumber();
        }
    }

    /// Restarts numbering; the shadow notices by the generation and drops its records.
    fn renumber(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        self.next = 1;
        self.is_stamped = false;
        self.floor = 1;
        self.contexts_base = 1;
        self.block_base = 1;
        self.proxied = [0; 32];
        self.barriers.forget();
        self.proxy_records.begin(self.next);
        self.collective.begin(self.next);
        self.event = [0; 32];
        self.synced = [0; 32];
        self.last = [0; 32];
        for row in self.cache.iter_mut() {
            row.fill((0, 0));
        }
        self.forget_locations();
    }

    /// The record for an access of `warp` at `instr`; may forget all others if numbers have run
    /// out.
    #[inline(always)]
    pub(crate) fn record(&mut self, warp: u32, instr: u32, kind: Kind, element: u32) -> u32 {
        let slot = self.cache[warp as usize][instr as usize % CACHED];
        if slot.0 == instr && slot.1 >= self.floor && slot.1 >= self.event[warp as usize] {
            return slot.1;
        }
        self.new_record(warp, instr, kind, element)
    }

    #[inline]
    fn new_record(&mut self, warp: u32, instr: u32, kind: Kind, element: u32) -> u32 {
        if self.contexts.len() >= MAX_CONTEXTS {
            self.forget_all();
        }
        let id = self.next;
        self.next += 1;
        self.is_stamped = false;
        self.contexts.push(Context { instr, kind, element, by: None });
        self.last[warp as usize] = id;
        self.cache[warp as usize][instr as usize % CACHED] = (instr, id);
        id
    }

    /// Forgets all records, as numbers have run out.
    #[cold]
    #[inline(never)]
    fn forget_all(&mut self) {
        self.forget();
        self.has_forgotten = true;
    }

    /// The record of a bulk copy, which belongs to no warp.
    pub(in crate::check) fn agent_record(&mut self, side: Side, kind: Kind) -> u32 {
        if self.contexts.len() >= MAX_CONTEXTS {
            self.forget_all();
        }
        let id = self.next;
        self.next += 1;
        self.is_stamped = false;
        self.contexts.push(Context { instr: side.instr, kind, element: 0, by: Some((side.warp, side.lane)) });
        id
    }

    /// The next record; all accesses so far are below it.
    pub(in crate::check) fn now(&mut self) -> u32 {
        self.close();
        self.next
    }

    /// The time for [`ordered`](Self::ordered) of a present access to global memory; such accesses
    /// have their records elsewhere, and share numbers.
    pub(in crate::check) const fn time(&mut self, warp: u32) -> u32 {
        self.is_stamped = true;
        self.last[warp as usize] = self.next;
        self.next
    }

    /// Records of the warp below this number may have been released.
    #[inline(always)]
    pub(in crate::check) const fn event(&self, warp: u32) -> u32 {
        self.event[warp as usize]
    }

    /// Ends the current number for accesses to global memory.
    pub(super) fn close(&mut self) {
        if std::mem::replace(&mut self.is_stamped, false) {
            self.contexts.push(Context { instr: 0, kind: Kind::Read, element: 0, by: None });
            self.next += 1;
        }
    }

    /// Ends the warp's current records.
    pub(in crate::check) fn end_records(&mut self, warp: u32) {
        self.event[warp as usize] = self.now();
    }

    /// Context of a record, if it is still known.
    pub(in crate::check) fn context_of(&self, id: u32) -> Option<Context> {
        self.contexts.get(id.checked_sub(self.contexts_base)? as usize).copied()
    }

    /// Context of a record at or above the floor.
    pub(crate) fn context(&self, id: u32) -> Context {
        self.contexts[(id - self.contexts_base) as usize]
    }

    /// Records of the warp's other lanes below this number are ordered before all of its lanes.
    #[inline]
    pub(crate) const fn synced(&self, warp: u32) -> u32 {
        self.synced[warp as usize]
    }

    /// Returns the order of `record` of `(other_warp, other_lane)` before what `(warp, lane)` does.
    pub(crate) fn ordered(&self, record: u32, other_warp: u32, other_lane: u32, warp: u32, lane: u32) -> Ordered {
        let (w, bit) = (warp as usize, 1u32 << warp);
        let either = |yes| if yes { Ordered::Yes } else { Ordered::No };
        if record < self.floor {
            return Ordered::Yes;
        }
        if other_warp == warp {
            return either(
                other_lane == lane
                    || record < self.synced[w]
                    || (self.lane_valid & bit != 0 && record < self.lane_clocks[w][lane as usize][other_lane as usize]),
            );
        }
        let known = if self.informed & bit == 0 { Known::all(0) } else { self.seen[w][other_warp as usize] };
        if record < known.of(other_lane) {
            return Ordered::Yes;
        }
        if let Some((lanes, clock)) = self.unshared.of(warp)
            && record < clock[other_warp as usize].of(other_lane)
        {
            return if self.is_collective || lanes & 1 << lane != 0 { Ordered::Yes } else { Ordered::Unshared };
        }
        let some = self.unshared.of(warp).map_or(0, |(_, clock)| clock[other_warp as usize].some);
        if record < known.some.max(some) { Ordered::InLockstep } else { Ordered::No }
    }

    /// Clock of `lanes` of `warp`, including their own accesses; ends the warp's current records.
    pub(in crate::check) fn stamp(&mut self, warp: u32, lanes: u32) -> Clock {
        let w = warp as usize;
        self.close();
        self.event[w] = self.next;
        let mut clock = if self.informed & 1 << warp != 0 { self.seen[w] } else { NOTHING };
        if let Some((known_by, unshared)) = self.unshared.of(warp)
            && known_by & lanes != 0
        {
            join(&mut clock, unshared);
        }
        let mut gathered = lanes;
        if self.lane_valid & 1 << warp != 0 {
            for lane in Lanes(lanes) {
                for (other, &n) in (0u32..).zip(&self.lane_clocks[w][lane as usize]) {
                    gathered |= u32::from(n > self.synced[w]) << other;
                }
            }
        }
        clock[w] = Known { all: self.synced[w], some: self.next, lanes: gathered };
        clock
    }

    fn lane_clocks(&mut self, warp: u32) -> &mut [[u32; 32]; 32] {
        let w = warp as usize;
        if self.lane_clocks.len() <= w {
            self.lane_clocks.resize(w + 1, [[0; 32]; 32]);
        }
        if self.lane_valid & 1 << warp == 0 {
            self.lane_valid |= 1 << warp;
            self.lane_clocks[w] = [[0; 32]; 32];
        }
        &mut self.lane_clocks[w]
    }

    /// Joins a clock into `warp`'s for other warps, and into that of its `lanes` for lanes of its
    /// own.
    pub(in crate::check) fn learn(&mut self, warp: u32, lanes: u32, clock: &Clock) {
        let w = warp as usize;
        let own = clock[w];
        let is_news = |(other, known): (usize, &Known)| {
            let old = if other < PROXIED { self.floor } else { self.proxied[other - PROXIED] };
            other != w && known.some > old
        };
        if clock.iter().enumerate().any(is_news) {
            if self.informed & 1 << warp == 0 {
                self.informed |= 1 << warp;
                self.seen[w] = NOTHING;
            }
            join(&mut self.seen[w], clock);
        }
        if own.some > self.synced[w] && own.some > self.floor {
            let clocks = self.lane_clocks(warp);
            for lane in Lanes(lanes) {
                for (other, n) in (0u32..).zip(&mut clocks[lane as usize]) {
                    *n = (*n).max(own.of(other));
                }
            }
        }
    }

    /// A `.sync` instruction executed by `mask` lanes of a warp.
    pub(crate) fn warp_sync(&mut self, warp: u32, mask: u32) {
        let w = warp as usize;
        let mask = mask & self.lanes[w];
        let now = self.now();
        self.event[w] = now;
        if let Some(fenced) = &mut self.fenced[w] {
            fenced[w] = fenced[w].gathered();
        }
        self.share_with(warp, mask);
        self.pending[w].share_with(mask);
        if mask == self.lanes[w] {
            self.synced[w] = now;
            self.lane_valid &= !(1 << warp);
            return;
        }
        let clocks = self.lane_clocks(warp);
        let mut joined = [0; 32];
        for lane in Lanes(mask) {
            for (n, &other) in joined.iter_mut().zip(&clocks[lane as usize]) {
                *n = other.max(*n);
            }
        }
        for lane in Lanes(mask) {
            joined[lane as usize] = now;
        }
        for lane in Lanes(mask) {
            clocks[lane as usize] = joined;
        }
    }

    /// Returns true if records ran out since the last call.
    pub(crate) const fn take_forgotten(&mut self) -> bool {
        std::mem::replace(&mut self.has_forgotten, false)
    }

    #[cfg(test)]
    pub(crate) const fn warps(&self) -> u32 {
        self.warps
    }
}
