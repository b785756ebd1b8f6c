//! Order that the barriers of a block, and that of its cluster, pass on from the warps that arrive
//! to those that continue.

use super::block::BlockOrder;
use crate::check::access::Lanes;
use crate::check::order::clock::{Clock, Known, NOTHING, join, join_boxed};

/// Barriers of a block.
pub(in crate::check) const BARRIERS: usize = 16;
/// Arrivals at the barrier of the cluster, in its present phase and in the previous one.
const PHASE: usize = BARRIERS;
const PAST_PHASE: usize = BARRIERS + 1;

/// Clocks of the warps that have arrived at one barrier.
#[derive(Debug, Clone)]
pub(in crate::check) struct Arrivals {
    clock: Clock,
    fenced: Option<Box<Clock>>,
    pending: Option<Box<Clock>>,
}

impl Arrivals {
    /// No arrivals.
    pub(in crate::check) const NONE: Self = Self { clock: NOTHING, fenced: None, pending: None };
}

impl BlockOrder {
    /// Arrival of `warp` at the barrier of the cluster.
    pub(in crate::check) fn arrive_at_cluster(&mut self, warp: u32, releases: bool) {
        if releases {
            return self.arrive_at(PHASE, warp);
        }
        self.phase_is_relaxed = true;
        if let Some(fenced) = &self.fenced[warp as usize] {
            join(&mut self.arrivals[PHASE].clock, fenced);
        }
    }

    /// Ends a phase of the cluster's barrier. `all_wait` is true if every live warp waits for it.
    pub(in crate::check) fn end_phase(&mut self, all_wait: bool) {
        if all_wait && !self.phase_is_relaxed {
            self.arrivals[PAST_PHASE] = Arrivals::NONE;
            self.complete_at(PHASE, self.warps, true, 0);
        } else {
            self.partial_order = true;
            self.arrivals[PAST_PHASE] = std::mem::replace(&mut self.arrivals[PHASE], Arrivals::NONE);
        }
        self.phase_is_relaxed = false;
    }

    /// End of `warp`'s wait for the phase that is over.
    pub(in crate::check) fn learn_phase(&mut self, warp: u32) {
        self.sequential.hear(warp, u64::MAX - PHASE as u64);
        let Arrivals { clock, fenced, pending } = self.arrivals[PAST_PHASE].clone();
        self.pass_on(1 << warp, &clock, fenced.as_deref(), pending.as_deref());
    }

    /// Arrival of `warp` at a barrier, with or without a wait.
    pub(crate) fn arrive(&mut self, barrier: u32, warp: u32) {
        self.arrive_at(barrier as usize % BARRIERS, warp);
    }

    fn arrive_at(&mut self, b: usize, warp: u32) {
        let w = warp as usize;
        self.sequential.tell(warp, u64::MAX - b as u64);
        self.share(warp);
        self.close();
        if self.informed & 1 << warp != 0 {
            join(&mut self.arrivals[b].clock, &self.seen[w]);
        }
        self.arrivals[b].clock[w] = Known::all(self.next);
        self.event[w] = self.next;
        if let Some(fenced) = &mut self.fenced[w] {
            fenced[w] = fenced[w].gathered();
            join_boxed(&mut self.arrivals[b].fenced, fenced);
        }
        if let Some(pending) = self.pending[w].seen() {
            join_boxed(&mut self.arrivals[b].pending, pending);
        }
    }

    /// All expected warps have arrived: `receivers` (a mask of warps) go on. `whole_block` says
    /// that every warp of the block that is still alive took part; `gone` are warps that have ended
    /// and that the barrier does not count as having arrived.
    pub(crate) fn complete(&mut self, barrier: u32, receivers: u32, whole_block: bool, gone: u32) {
        self.complete_at(barrier as usize % BARRIERS, receivers, whole_block, gone);
    }

    fn complete_at(&mut self, b: usize, receivers: u32, whole_block: bool, gone: u32) {
        Lanes(receivers).for_each(|warp| self.sequential.hear(warp, u64::MAX - b as u64));
        let arrivals = std::mem::replace(&mut self.arrivals[b], Arrivals::NONE);
        let is_known = |warp: u32| {
            let (last, known) = (self.last[warp as usize], arrivals.clock[warp as usize].all);
            last < self.floor || last < known
        };
        let whole_block = whole_block && Lanes(gone).all(is_known);
        let generation = self.generation;
        let (mut fenced, mut pending) = (arrivals.fenced.as_deref(), arrivals.pending.as_deref());
        let clock = if whole_block {
            self.forget();
            NOTHING
        } else {
            self.partial_order = true;
            arrivals.clock
        };
        if generation != self.generation {
            (fenced, pending) = (None, None);
        }
        if !whole_block || fenced.is_some() || pending.is_some() {
            self.pass_on(receivers, &clock, fenced, pending);
        }
    }

    /// Passes the clocks of a barrier's arrivals to `receivers`.
    fn pass_on(&mut self, receivers: u32, clock: &Clock, fenced: Option<&Clock>, pending: Option<&Clock>) {
        for warp in Lanes(receivers) {
            let w = warp as usize;
            self.learn(warp, 0, clock);
            self.synced[w] = self.synced[w].max(clock[w].all);
            if let Some(fenced) = fenced {
                join_boxed(&mut self.fenced[w], fenced);
            }
            if let Some(pending) = pending {
                self.pending[w].see(u32::MAX, &Box::new(*pending));
            }
        }
    }
}
