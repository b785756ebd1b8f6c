//! Order through mbarriers and asynchronous copies inside a block, and the accesses covered by
//! proxy fences.
//!
//! An mbarrier has two clocks: that of the arrivals of its current phase, and that of the last
//! complete phase. A successful wait acquires the latter (PTX ISA, "mbarrier.test_wait": accesses
//! before an arrival with release semantics are visible). A bulk copy is a separate agent beside
//! the warps: its writes are recorded when its phase is complete, under the number of its barrier,
//! and a warp that has not waited for that phase does not know of them.
//!
//! The async proxy (PTX ISA, "Async Proxy"; rules as in the note on proxy fences of the module
//! [`flight`](crate::check::async_proxy::flight)): each clock also knows up to where the generic
//! accesses of each warp come before a `fence.proxy.async` that happened before.
//!
//! Towards other blocks an mbarrier is a location at which arrivals release and waits acquire.
//!
//! What can be missed: there, a wait counts for all arrivals so far; barriers beyond the 31st share
//! an agent, so that a wait at one counts for all; a fence by some lanes counts for their warp; and
//! what a block knew of fences, all of its warps know after a barrier of the whole block.

use std::collections::HashMap;

use warpfold_ptx::{Order, Scope};

use crate::check::access::{Access, Kind, Lanes};
use crate::check::async_proxy::flight::{Flight, Hold};
use crate::check::block::BlockCheck;
use crate::check::findings::{Findings, Found, Rule, Side};
use crate::check::global::cluster::address_in_block;
use crate::check::order::block::{BlockOrder, Ordered};
use crate::check::order::clock::{AGENTS, Clock, Known, NOTHING, PROXIED, join};
use crate::check::{LaunchCheck, Space, Strength};

/// One mbarrier.
#[derive(Debug)]
struct Phases {
    agent: u32,
    /// The thread that initialised it, and the number of that record.
    made: Option<(Side, u32)>,
    parity: bool,
    coming: Box<Clock>,
    complete: Box<Clock>,
}

/// All mbarriers of a block by their offsets.
#[derive(Debug, Default)]
pub(in crate::check) struct Barriers(HashMap<u32, Phases>);

impl Barriers {
    pub(in crate::check) fn clear(&mut self) {
        self.0.clear();
    }

    /// Resets all clocks, as numbering restarts.
    pub(in crate::check) fn forget(&mut self) {
        #[allow(clippy::iter_over_hash_type, reason = "each is changed by itself")]
        for phases in self.0.values_mut() {
            phases.made = None;
            *phases.coming = NOTHING;
            *phases.complete = NOTHING;
        }
    }

    fn at(&mut self, offset: u32) -> &mut Phases {
        let agent = AGENTS + u32::try_from(self.0.len()).unwrap_or(u32::MAX).min(31);
        let new =
            || Phases { agent, made: None, parity: false, coming: Box::new(NOTHING), complete: Box::new(NOTHING) };
        self.0.entry(offset).or_insert_with(new)
    }
}

impl BlockOrder {
    /// Arrival of lanes at a barrier, with a release.
    fn arrive_at_mbarrier(&mut self, warp: u32, lanes: u32, offset: u32) {
        let clock = self.stamp(warp, lanes);
        self.partial_order = true;
        join(&mut self.barriers.at(offset).coming, &clock);
        self.sequential.tell(warp, Space::Shared.key(offset.into()));
    }

    fn complete_phase(&mut self, offset: u32, parity: bool) {
        let phases = self.barriers.at(offset);
        phases.parity = parity;
        phases.complete = std::mem::replace(&mut phases.coming, Box::new(NOTHING));
    }

    /// End of a wait for the phase before the one of this parity.
    fn pass_mbarrier(&mut self, warp: u32, lanes: u32, offset: u32, parity: bool) {
        if self.barriers.at(offset).parity != parity {
            // An arrival from another block completed the phase.
            self.complete_phase(offset, parity);
        }
        let clock = self.barriers.at(offset).complete.clone();
        self.learn_by(warp, lanes, &clock);
        self.sequential.hear(warp, Space::Shared.key(offset.into()));
    }

    /// The record of a bulk copy that completes on a barrier.
    fn copy_record(&mut self, offset: u32, side: Side, kind: Kind) -> (u32, u32) {
        let id = self.agent_record(side, kind);
        let phases = self.barriers.at(offset);
        phases.coming[phases.agent as usize] = Known::all(id + 1);
        self.partial_order = true;
        (id, phases.agent)
    }

    /// `fence.proxy.async` by a warp: covers all generic accesses that it knows of.
    fn proxy_fence(&mut self, warp: u32) {
        let w = warp as usize;
        if self.informed & 1 << warp == 0 {
            self.informed |= 1 << warp;
            self.seen[w] = NOTHING;
        }
        let now = self.now();
        self.end_records(warp);
        let unshared = self.unshared.of(warp).map(|(_, clock)| *clock);
        for other in 0..32 {
            let unshared = unshared.map_or(0, |clock| clock[other].some);
            let known = if other == w { now } else { self.seen[w][other].some.max(self.floor()).max(unshared) };
            let covered = &mut self.seen[w][PROXIED + other];
            *covered = Known::all(covered.some.max(known));
        }
    }

    /// Returns true if a generic access of `other` lies before a proxy fence that `warp` knows of,
    /// or before the block.
    pub(in crate::check) fn is_proxied(&self, record: u32, other: u32, warp: u32) -> bool {
        let (w, other) = (warp as usize, other as usize);
        record < self.block_base
            || record < self.proxied[other]
            || (self.informed & 1 << warp != 0 && record < self.seen[w][PROXIED + other].some)
            || self.unshared.of(warp).is_some_and(|(_, clock)| record < clock[PROXIED + other].some)
    }
}

impl BlockCheck {
    /// Initialisation of an mbarrier of 8 bytes.
    pub(crate) fn barrier_begins(&mut self, access: &Access, offsets: &[u32; 32], findings: &mut Findings) {
        self.shared_access(access, offsets, None, findings);
        for lane in Lanes(access.mask) {
            let start = offsets[lane as usize];
            let side = Side { instr: access.instr, block: self.block, warp: access.warp, lane };
            self.flights.end_barrier(start);
            self.flights.add(Flight { start, end: start + 8, hold: Hold::Barrier, side });
            self.order.barriers.0.remove(&start);
            let id = self.order.record(access.warp, access.instr, Kind::Write, 0);
            self.order.barriers.at(start).made = Some((side, id));
        }
    }

    /// Invalidation of an mbarrier.
    pub(crate) fn barrier_ends(&mut self, access: &Access, offsets: &[u32; 32], findings: &mut Findings) {
        self.barrier_access(access, offsets, findings);
        for lane in Lanes(access.mask) {
            self.flights.end_barrier(offsets[lane as usize]);
        }
    }

    /// Checks an operation on an mbarrier against other accesses to its bytes.
    pub(crate) fn barrier_access(&mut self, access: &Access, offsets: &[u32; 32], findings: &mut Findings) {
        self.shared.access(&mut self.order, self.block, access, offsets, None, findings);
        // The initialising thread's own uses of the barrier are not checked against its
        // initialisation.
        for lane in Lanes(access.mask) {
            let address = offsets[lane as usize];
            let Some((maker, id)) = self.order.barriers.0.get(&address).and_then(|phases| phases.made) else {
                continue;
            };
            let is_same = (maker.warp, maker.lane) == (access.warp, lane);
            let ordered = is_same || self.order.ordered(id, maker.warp, maker.lane, access.warp, lane) == Ordered::Yes;
            if !ordered {
                let this = Side { instr: access.instr, block: self.block, warp: access.warp, lane };
                let rule = if maker.warp == access.warp { Rule::WarpSynchronous } else { Rule::ReadAfterWrite };
                let (space, other) = (Space::Shared, Some(maker));
                findings.add(Found { rule, space, address: address.into(), this, other, count: 1 });
            }
        }
    }

    /// Arrival of lanes at an mbarrier of the block with release semantics.
    pub(crate) fn arrive_at_mbarrier(&mut self, launch: &LaunchCheck, warp: u32, lanes: u32, offset: u32) {
        self.order.arrive_at_mbarrier(warp, lanes, offset);
        let at = (warp, lanes, address_in_block(self.block, offset.into()));
        self.grid.release(&launch.locations, at, Kind::Atomic, Order::Release, Scope::Gpu);
    }

    /// Advances an mbarrier of the block to the phase of this parity.
    pub(crate) fn complete_phase(&mut self, offset: u32, parity: bool) {
        self.order.complete_phase(offset, parity);
    }

    /// End of a wait with acquire semantics for the phase before the one of this parity.
    pub(crate) fn pass_mbarrier(&mut self, launch: &LaunchCheck, (warp, lanes): (u32, u32), offset: u32, parity: bool) {
        self.order.pass_mbarrier(warp, lanes, offset, parity);
        if self.grid.has_released(&launch.locations) {
            let at = (warp, lanes, address_in_block(self.block, offset.into()));
            launch.locations.settle();
            self.grid.begin_read(&launch.locations);
            self.grid.acquire(&launch.locations, at, Order::Acquire, Scope::Gpu);
            self.grid.end_read();
        }
    }

    /// `fence.proxy.async` by lanes of a warp, for shared memory, for global memory or for both.
    pub(crate) fn proxy_fence(&mut self, launch: &LaunchCheck, warp: u32, shared: bool, global: bool) {
        if shared {
            self.order.proxy_fence(warp);
        }
        if global {
            launch.proxy_fences.add(self.block, self.grid.proxy_fence());
        }
    }

    /// An asynchronous operation of the async proxy begins to read or write a range of the block's
    /// shared memory on behalf of a lane: it must not collide with what is in flight, must come
    /// after what it depends on, and that must be fenced.
    pub(crate) fn proxy_begins(&mut self, side: Side, kind: Kind, (start, end): (u32, u32), findings: &mut Findings) {
        if let Some((rule, at, other)) = self.shared.unfenced(&self.order, side.warp, kind, (start, end)) {
            let other = other.map(|other| Side { block: self.block, ..other });
            findings.add(Found { rule, space: Space::Shared, address: at.into(), this: side, other, count: 1 });
        }
        self.each_chunk(side, kind, (start, end), |check, access, offsets| {
            check.shared.access(&mut check.order, check.block, access, offsets, None, findings);
        });
        self.proxy_flies(side, kind, (start, end), findings);
    }

    /// The part of [`proxy_begins`](Self::proxy_begins) for a copy that another block began.
    pub(crate) fn proxy_flies(&mut self, side: Side, kind: Kind, (start, end): (u32, u32), findings: &mut Findings) {
        if let Some((rule, flight)) = self.flights.add(Flight { start, end, hold: kind.into(), side }) {
            let address = u64::from(start.max(flight.start));
            let other = Some(flight.side);
            findings.add(Found { rule, space: Space::Shared, address, this: side, other, count: 1 });
        }
    }

    /// A copy has written a range or combined with it, and the barrier at `barrier` tells of it.
    pub(crate) fn copy_lands_for(&mut self, side: Side, kind: Kind, (start, end): (u32, u32), barrier: u32) {
        self.flights.remove(start, end, kind.into(), side.instr);
        let record = self.order.copy_record(barrier, side, Kind::Write);
        self.copy_passes_on_waits(record, side);
        self.shared.landed_range(&mut self.order, record, (start, end));
    }

    /// An operation of the async proxy has read a range, and its lane knows it.
    pub(crate) fn proxy_has_read(&mut self, side: Side, range: (u32, u32), findings: &mut Findings) {
        self.flights.remove(range.0, range.1, Hold::Reads, side.instr);
        self.each_chunk(side, Kind::Read, range, |check, access, offsets| {
            check.shared.access(&mut check.order, check.block, access, offsets, None, findings);
        });
    }

    /// A warp begins an operation of the async proxy that reads units of 16 bytes (an operand of
    /// `wgmma`): judged as [`proxy_begins`](Self::proxy_begins) is.
    pub(crate) fn warp_reads_begin(&mut self, instr: u32, warp: u32, units: &[u32], findings: &mut Findings) {
        let this = Side { instr, block: self.block, warp, lane: 0 };
        let mut add = |rule, address: u32, other| {
            findings.add(Found { rule, space: Space::Shared, address: address.into(), this, other, count: 1 });
        };
        for &unit in units {
            if let Some((rule, at, other)) = self.shared.unfenced(&self.order, warp, Kind::Read, (unit, unit + 16)) {
                add(rule, at, other.map(|other| Side { block: self.block, ..other }));
            }
        }
        if let Some((rule, flight)) = self.flights.add_operands(this, units) {
            add(rule, flight.start, Some(flight.side));
        }
        self.order.is_collective = true;
        self.warp_reads(instr, warp, units, findings);
        self.order.is_collective = false;
    }

    /// The operation has read them, and the warp knows it.
    pub(crate) fn warp_reads_end(&mut self, instr: u32, warp: u32, units: &[u32], findings: &mut Findings) {
        self.flights.remove_operands(instr, warp, units);
        self.order.is_collective = true;
        self.warp_reads(instr, warp, units, findings);
        self.order.is_collective = false;
    }

    /// Records reads of whole warps, which no lane makes for itself.
    fn warp_reads(&mut self, instr: u32, warp: u32, units: &[u32], findings: &mut Findings) {
        for some in units.chunks(32) {
            let mut offsets = [some[0]; 32];
            offsets[..some.len()].copy_from_slice(some);
            let mask = u32::MAX >> (32 - some.len());
            let strength = Strength::Weak;
            let access = Access { instr, warp, mask, bytes: 16, element: 0, kind: Kind::Read, strength };
            self.shared.access(&mut self.order, self.block, &access, &offsets, None, findings);
        }
        let id = self.order.record(warp, instr, Kind::Read, 0);
        self.order.proxy_records.insert(id);
        self.order.collective.insert(id);
    }

    /// Calls with accesses of whole warps that together make up a range; all on behalf of one lane.
    fn each_chunk(
        &mut self,
        side: Side,
        kind: Kind,
        (start, end): (u32, u32),
        mut each: impl FnMut(&mut Self, &Access, &[u32; 32]),
    ) {
        let bit = 1u32 << side.lane;
        let mut at = start;
        while at < end {
            let bytes = if (end - at) >= 16 && at.is_multiple_of(16) { 16 } else { 4 };
            let strength = match kind {
                Kind::Atomic => Strength::Strong(Order::Relaxed, Scope::Gpu),
                Kind::Read | Kind::Write => Strength::Weak,
            };
            let access = Access { instr: side.instr, warp: side.warp, mask: bit, bytes, element: 0, kind, strength };
            let mut offsets = [0; 32];
            offsets[side.lane as usize] = at;
            each(self, &access, &offsets);
            at += bytes;
        }
        let id = self.order.record(side.warp, side.instr, kind, 0);
        self.order.proxy_records.insert(id);
    }

    /// Copies by `cp.async` have landed, and the barrier at `barrier` tells of them.
    pub(crate) fn copy_arrives(&mut self, access: &Access, addresses: &[u32; 32], barrier: u32) {
        for lane in Lanes(access.mask) {
            let start = addresses[lane as usize];
            let end = start + access.bytes;
            self.flights.remove(start, end, access.kind.into(), access.instr);
            let side = Side { instr: access.instr, block: self.block, warp: access.warp, lane };
            let record = self.order.copy_record(barrier, side, Kind::Write);
            self.copy_passes_on_waits(record, side);
            self.shared.landed_range(&mut self.order, record, (start, end));
        }
    }

    /// Releases what the warp knows to others of the grid, which learn it at a location.
    pub(crate) fn release_to_cluster(&mut self, launch: &LaunchCheck, access: &Access, addresses: &[u64; 32]) {
        for lane in Lanes(access.mask) {
            let at = (access.warp, 1 << lane, addresses[lane as usize]);
            self.grid.release(&launch.locations, at, Kind::Atomic, Order::Release, Scope::Gpu);
        }
    }
}
