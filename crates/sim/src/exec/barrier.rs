//! Block barriers: arrivals, completion, and the results of `barrier.red`.

use super::block::Block;
use super::block::Context;
use super::code::{Barrier, BarrierKind, BlockId, Code, Terminator};
use super::machine::{Fault, Machine};
use super::row::{ALL_LANES, LANES};
use super::warp::{PartState, Warp};
use crate::report::{FindingKind, Severity};

/// Barriers of a block (PTX ISA, `bar`: sixteen of them).
pub(crate) const BARRIERS: usize = 16;

/// One barrier of a block.
#[derive(Debug, Clone, Default)]
pub(super) struct BarrierState {
    /// Lanes that have arrived, by warp.
    pub arrived: Vec<u32>,
    /// Expected threads; all of the block if `None`.
    pub expected: Option<u32>,
    /// True if any warp has arrived.
    pub open: bool,
    /// Threads whose predicate was true.
    pub held: u32,
    /// Threads that gave a predicate.
    pub given: u32,
    /// The first instruction that arrived, for findings.
    pub instruction: u32,
}

/// An aligned barrier that part of a warp has reached: the rest must arrive at the same
/// instruction.
#[derive(Debug, Clone)]
pub(super) struct Partial {
    warp: u32,
    /// The barrier's number and instruction.
    at: (u32, u32),
    /// A lane that arrived.
    lane: u32,
    /// Lanes that have not arrived.
    missing: u32,
}

impl Block {
    /// Notes that an aligned barrier waits for the rest of a warp, unless it does so already.
    pub(super) fn expect_rest_of_warp(&mut self, w: u32, mask: u32, missing: u32, at: (u32, u32)) {
        if missing != 0 && !self.partial.iter().any(|p| p.warp == w && p.at == at) {
            self.partial.push(Partial { warp: w, at, lane: mask.trailing_zeros(), missing });
        }
    }

    /// Reports a divergent barrier if lanes exit, or reach another barrier, while an aligned one
    /// waits for them.
    pub(super) fn missed_barrier(&mut self, w: u32, mask: u32, at: Option<(u32, u32)>, m: &mut Machine) {
        let mut i = 0;
        while i < self.partial.len() {
            let p = &mut self.partial[i];
            if p.warp != w || p.missing & mask == 0 {
                i += 1;
                continue;
            }
            let missing = p.missing;
            p.missing &= !mask;
            let (same, done) = (at == Some(p.at), p.missing == 0);
            if same && !done {
                i += 1;
                continue;
            }
            let p = self.partial.swap_remove(i);
            if !same {
                self.divergent_barrier(&p, missing, m);
            }
        }
    }

    /// Reports the aligned barriers that wait for lanes that can never arrive.
    pub(super) fn stuck_barriers(&mut self, m: &mut Machine) {
        for p in std::mem::take(&mut self.partial) {
            self.divergent_barrier(&p, p.missing, m);
        }
    }

    fn divergent_barrier(&self, p: &Partial, missing: u32, m: &mut Machine) {
        let rule = format!("an aligned barrier was executed by part of a warp only, without its lanes {missing:#010x}");
        self.fault(m, FindingKind::BarrierDivergence, p.at.1, p.warp, p.lane, rule);
    }

    /// Arrival of part `i` of warp `w` at a barrier; returns the next block if it need not wait.
    pub(super) fn reach_barrier(
        &mut self,
        w: u32,
        i: usize,
        barrier: &Barrier,
        m: &mut Machine,
        cx: &Context<'_>,
    ) -> Option<BlockId> {
        let mask = self.warps[w as usize].parts[i].mask;
        let live = self.warps[w as usize].live;
        let lane = mask.trailing_zeros();
        // SAFETY: the decoder gave the function these rows.
        let (id, threads) = unsafe {
            let value = |row| (&*m.lanes::<u32>(row))[lane as usize];
            (value(barrier.id), barrier.threads.map(value))
        };
        let invalid = if id as usize >= BARRIERS {
            Some(format!("barrier {id}: a block has {BARRIERS} barriers"))
        } else if threads.is_some_and(|t| t == 0 || t % 32 != 0) {
            Some(format!("thread count {} is not a positive multiple of the warp size 32", threads.unwrap_or(0)))
        } else if self.barriers[id as usize].open && self.barriers[id as usize].expected != threads {
            Some(format!("barrier {id} is in use with another thread count"))
        } else {
            None
        };
        if let Some(rule) = invalid {
            self.fault(m, FindingKind::InvalidSync, barrier.instruction, w, lane, rule);
            m.stop = true;
            return None;
        }
        if m.checked {
            self.missed_barrier(w, mask, Some((id, barrier.instruction)), m);
            if barrier.aligned && mask != live {
                let arrived = self.barriers[id as usize].arrived[w as usize] | mask;
                self.expect_rest_of_warp(w, mask, live & !arrived, (id, barrier.instruction));
            }
        }
        let state = &mut self.barriers[id as usize];
        if !state.open {
            (state.open, state.expected, state.instruction) = (true, threads, barrier.instruction);
        }
        state.arrived[w as usize] |= mask;
        if let BarrierKind::Popc { predicate, negated, .. }
        | BarrierKind::And { predicate, negated, .. }
        | BarrierKind::Or { predicate, negated, .. } = barrier.kind
        {
            // SAFETY: the decoder gave the function this predicate.
            let p = unsafe { m.predicate(predicate) };
            state.held += (mask & if negated { !p } else { p }).count_ones();
            state.given += mask.count_ones();
        }
        m.progress = true;
        m.check_arrive(id);
        let waits = barrier.kind != BarrierKind::Arrive;
        if waits {
            self.warps[w as usize].parts[i].state = PartState::Barrier(id);
        }
        self.complete_barrier(id as usize, m, cx.code);
        if waits {
            // The part waits, or was advanced together with the others.
            return None;
        }
        Some(barrier.next)
    }

    /// Releases the waiting parts if all threads have arrived.
    pub(super) fn complete_barrier(&mut self, id: usize, m: &mut Machine, code: &Code) {
        let state = &self.barriers[id];
        let is_here = |(warp, arrived): &(&Warp, &u32)| **arrived & warp.live == warp.live;
        // The last warp mostly arrives last.
        let mut warps = self.warps.iter().zip(&state.arrived);
        let missing = warps.rfind(|warp| !is_here(warp)).is_some();
        if let Some(threads) = state.expected {
            let here = self.warps.iter().zip(&state.arrived).filter(is_here);
            let arrived = here.filter(|(_, arrived)| **arrived != 0).count();
            if arrived * 32 < threads as usize {
                return;
            }
        } else if missing {
            return;
        }
        if m.checked && state.expected.is_none() {
            self.check_left_out(id, m);
        }
        let state = &self.barriers[id];
        let (held, given, is_counted) = (state.held, state.given, state.expected.is_some());
        let state = &mut self.barriers[id];
        (state.open, state.expected, state.held, state.given) = (false, None, 0, 0);
        state.arrived.fill(0);
        let waiting = PartState::Barrier(u32::try_from(id).expect("sixteen barriers"));
        if m.checked {
            let id = u32::try_from(id).expect("sixteen barriers");
            let waits = |warp: &Warp| warp.parts.iter().any(|p| p.state == PartState::Barrier(id));
            let receivers = self.warps.iter().enumerate().filter(|(_, warp)| waits(warp));
            let receivers = receivers.fold(0, |all, (w, _)| all | 1u32 << w);
            let live = self.warps.iter().enumerate().filter(|(_, warp)| warp.live != 0);
            let live = live.fold(0, |all, (w, _)| all | 1u32 << w);
            let gone =
                self.warps.iter().enumerate().filter(|(_, warp)| is_counted && warp.live == 0 && warp.initial != 0);
            let gone = gone.fold(0, |all, (w, _)| all | 1u32 << w);
            m.check_complete(id, receivers, receivers == live && !missing, gone);
        }
        let current = (m.frame, m.predicates, m.local, m.local_base, m.local_end);
        for w in 0..self.warps.len() {
            let mut i = 0;
            while i < self.warps[w].parts.len() {
                if self.warps[w].parts[i].state != waiting {
                    i += 1;
                    continue;
                }
                let w32 = u32::try_from(w).expect("at most 32 warps");
                let Terminator::Barrier(barrier) = &code.blocks[self.warps[w].parts[i].block as usize].terminator
                else {
                    unreachable!("a part that waits at a barrier is at one")
                };
                self.barrier_result(w32, i, barrier.kind, (held, given), m, code);
                self.ready |= 1 << w;
                let warp = &mut self.warps[w];
                let part = &mut warp.parts[i];
                (part.block, part.at_terminator, part.state) = (barrier.next, false, PartState::Ready);
                if part.join.is_some() {
                    let part = warp.parts.swap_remove(i);
                    if let Some(part) = warp.arrive(part, barrier.next) {
                        warp.parts.push(part);
                    }
                } else {
                    i += 1;
                }
            }
        }
        (m.frame, m.predicates, m.local, m.local_base, m.local_end) = current;
    }

    /// Warns of a barrier of all threads that completes without warps that have exited.
    fn check_left_out(&self, id: usize, m: &mut Machine) {
        let state = &self.barriers[id];
        let is_left_out = |w: usize| self.warps[w].live == 0 && self.warps[w].initial != 0 && state.arrived[w] == 0;
        let waits = (0..self.warps.len()).find(|&w| self.warps[w].live != 0 && state.arrived[w] != 0);
        let count = (0..self.warps.len()).filter(|&w| is_left_out(w)).count();
        let Some(w) = waits.filter(|_| count != 0) else { return };
        let rule = "the barrier completes without warps whose threads have all ended before it".to_owned();
        let thread = u32::try_from(w * 32).expect("at most 1024 threads") + state.arrived[w].trailing_zeros();
        let (kind, severity) = (FindingKind::BarrierDivergence, Severity::Warning);
        let (instruction, block) = (state.instruction, self.index);
        m.fault(Fault { kind, severity, instruction, block, thread, address: None, other: None, rule }, false);
    }

    fn barrier_result(
        &mut self,
        w: u32,
        i: usize,
        kind: BarrierKind,
        (held, given): (u32, u32),
        m: &mut Machine,
        code: &Code,
    ) {
        let mask = self.warps[w as usize].parts[i].mask;
        if matches!(kind, BarrierKind::Sync | BarrierKind::Arrive) {
            return;
        }
        self.enter_frame(w, i, m, code);
        let everywhere = |holds: bool| if holds { ALL_LANES } else { 0 };
        // SAFETY: the decoder gave the function these destinations.
        unsafe {
            match kind {
                BarrierKind::Popc { dst, .. } => m.write(dst, &[held; LANES], mask),
                BarrierKind::And { dst, .. } => m.set_predicate(dst, everywhere(held == given), mask),
                BarrierKind::Or { dst, .. } => m.set_predicate(dst, everywhere(held != 0), mask),
                BarrierKind::Sync | BarrierKind::Arrive => {}
            }
        }
    }
}
