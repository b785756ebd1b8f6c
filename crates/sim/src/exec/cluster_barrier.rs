//! `barrier.cluster.arrive` and `.wait` (PTX ISA, "barrier.cluster"): one block's part of the
//! barrier of its cluster.
//!
//! Each thread arrives once and then waits; the phase is over when every thread of the cluster that
//! has not exited has arrived. [`Resident`](super::cluster::Resident) sees when that is so.

use super::block::Block;
use super::code::{BlockId, ClusterBarrier, Code, Terminator};
use super::machine::Machine;
use super::warp::{PartState, Warp};
use crate::check::Released;
use crate::report::FindingKind;

/// Number of the cluster's barrier in findings: one above those of a block.
const CLUSTER_BARRIER: u32 = super::barrier::BARRIERS as u32;

/// The lanes of one warp in the present phase.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Arrival {
    /// Lanes that have arrived in the current phase.
    arrived: u32,
    /// Lanes that have arrived in this phase or the previous one, and not waited for it.
    owes: u32,
}

impl Block {
    /// Arrival of part `i` of warp `w` at the barrier of the cluster; returns the next basic block
    /// if it need not wait.
    pub(super) fn reach_cluster_barrier(
        &mut self,
        w: u32,
        i: usize,
        barrier: &ClusterBarrier,
        m: &mut Machine,
    ) -> Option<BlockId> {
        let warp = &self.warps[w as usize];
        let (mask, live) = (warp.parts[i].mask, warp.live);
        let parked = warp.parts.iter().filter(|p| p.state == PartState::ClusterBarrier).fold(0, |all, p| all | p.mask);
        let state = self.cluster[w as usize];
        if m.checked {
            self.missed_barrier(w, mask, Some((CLUSTER_BARRIER, barrier.instruction)), m);
            let here = mask | if barrier.waits { !state.owes | parked } else { state.arrived };
            if barrier.aligned && live & !here != 0 {
                self.expect_rest_of_warp(w, mask, live & !here, (CLUSTER_BARRIER, barrier.instruction));
            }
        }
        let rule = match barrier.waits {
            false if state.owes & mask != 0 => {
                "arrives at the barrier of the cluster again without having waited for it"
            }
            true if mask & !state.owes != 0 => "waits at the barrier of the cluster without having arrived",
            _ => "",
        };
        if m.checked && !rule.is_empty() {
            let wrong = mask & if barrier.waits { !state.owes } else { state.owes };
            let lane = wrong.trailing_zeros();
            self.fault(m, FindingKind::InvalidSync, barrier.instruction, w, lane, rule.to_owned());
        }
        m.progress = true;
        let state = &mut self.cluster[w as usize];
        if !barrier.waits {
            m.check_cluster_arrival(barrier.releases);
            state.arrived |= mask;
            state.owes |= mask;
            return Some(barrier.next);
        }
        if state.arrived & mask == 0 {
            state.owes &= !mask;
            m.check_cluster_wait();
            return Some(barrier.next);
        }
        self.warps[w as usize].parts[i].state = PartState::ClusterBarrier;
        None
    }

    /// Returns true if every thread that has not exited has arrived at the cluster's barrier.
    pub(super) fn has_arrived(&self) -> bool {
        self.warps.iter().zip(&self.cluster).all(|(warp, state)| warp.live & !state.arrived == 0)
    }

    /// Ends the phase: returns the clock that this block released to the others.
    pub(super) fn end_phase(&mut self) -> Released {
        let waits = |warp: &Warp| {
            let parked = warp.parts.iter().filter(|p| p.state == PartState::ClusterBarrier);
            parked.fold(0, |all, p| all | p.mask) == warp.live
        };
        let all_wait = self.warps.iter().all(waits);
        let exited = (0..).zip(&self.warps).filter(|(_, warp)| warp.live == 0).fold(0, |all, (w, _)| all | 1u32 << w);
        self.check.as_mut().map_or_else(Released::default, |check| check.end_phase(exited, all_wait))
    }

    /// Releases the waiting warps after a phase in which the cluster released a clock. Returns true
    /// if there are any.
    pub(super) fn pass_cluster_barrier(&mut self, released: &Released, code: &Code) -> bool {
        let mut any = false;
        if let Some(check) = &mut self.check {
            check.begin_phase(released.clone());
        }
        for w in 0..self.warps.len() {
            self.cluster[w].arrived = 0;
            let warp = &mut self.warps[w];
            while let Some(i) = warp.parts.iter().position(|p| p.state == PartState::ClusterBarrier) {
                let part = warp.parts.swap_remove(i);
                let Terminator::ClusterBarrier(barrier) = &code.blocks[part.block as usize].terminator else {
                    unreachable!("a part that waits at the barrier of the cluster is at one")
                };
                self.cluster[w].owes &= !part.mask;
                if let Some(check) = &mut self.check {
                    check.pass_cluster_barrier(u32::try_from(w).expect("at most 32 warps"));
                }
                if let Some(part) = warp.arrive(part, barrier.next) {
                    warp.parts.push(part);
                }
                self.ready |= 1 << w;
                any = true;
            }
        }
        any
    }
}
