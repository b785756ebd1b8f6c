//! `setmaxnreg`: the registers that each warp owns, and the block's pool.
//!
//! The virtual GPU has as many registers as a program declares: this is accounting, with the
//! waiting that comes of it and the rules (PTX ISA, "setmaxnreg"). What a warp starts with follows
//! from the directives that ptxas goes by; it ignores the instruction without them (its message
//! C7508), and so does this, with a note.
//!
//! What can be missed: that the warps of a warpgroup must synchronise between two of these
//! instructions is seen only when one of them is ahead in the run at hand.

use super::block::Block;
use super::code::{BlockId, SetRegisters};
use super::machine::{Fault, Machine};
use super::warp::PartState;
use crate::report::{FindingKind, Severity};

/// Warps of a warpgroup.
const WARPGROUP: usize = 4;

/// The registers of one block.
#[derive(Debug, Clone, Default)]
pub(super) struct Registers {
    /// Registers per thread of each warp; empty if unknown.
    owned: Vec<u32>,
    /// Registers that no warp owns.
    pool: u32,
    /// Per warpgroup: the instruction that some of its warps have executed, and the mask of those
    /// warps.
    begun: Vec<Option<(u32, u32)>>,
}

impl Registers {
    /// Starts a block.
    pub(super) fn start(&mut self, warps: usize, entry: Option<u32>) {
        self.owned.clear();
        self.owned.resize(if entry.is_some() { warps } else { 0 }, entry.unwrap_or(0));
        self.pool = 0;
        self.begun.clear();
        self.begun.resize(warps.div_ceil(WARPGROUP), None);
    }

    /// Notes that a warp executes an instruction; returns false if its warpgroup is in the middle
    /// of another one.
    fn join(&mut self, w: u32, instruction: u32) -> bool {
        let (group, bit) = (w as usize / WARPGROUP, 1 << (w as usize % WARPGROUP));
        let (fits, done) = match self.begun[group] {
            None => (true, bit),
            Some((before, done)) if before == instruction && done & bit == 0 => (true, done | bit),
            Some(_) => (false, bit),
        };
        self.begun[group] = (done != (1 << WARPGROUP) - 1).then_some((instruction, done));
        fits
    }
}

impl Block {
    /// Arrival of part `i` of warp `w` at `setmaxnreg`; returns the next basic block if it need not
    /// wait.
    pub(super) fn set_registers(&mut self, w: u32, i: usize, set: &SetRegisters, m: &mut Machine) -> Option<BlockId> {
        let warp = &self.warps[w as usize];
        let (mask, live) = (warp.parts[i].mask, warp.live);
        let lane = mask.trailing_zeros();
        let is_retry = std::mem::replace(&mut self.warps[w as usize].parts[i].retries, false);
        let Some(&owned) = self.registers.owned.get(w as usize) else {
            if m.checked {
                let rule = "setmaxnreg is ignored: without .maxnreg, or .minnctapersm with .maxntid or .reqntid, ptxas cannot \
                            tell what threads start with";
                self.note(m, set.instruction, w, lane, rule);
            }
            return Some(set.next);
        };
        let mut broken = Vec::new();
        if mask != live {
            broken.push(format!("setmaxnreg was executed without lanes {:#010x} of the warp", live & !mask));
        }
        if !is_retry && !self.registers.join(w, set.instruction) {
            broken.push("not all warps of the warpgroup have executed the setmaxnreg before this one".to_owned());
        }
        let wrong_way = if set.takes { owned > set.count } else { owned < set.count };
        if wrong_way {
            let (which, how) = if set.takes { ("inc", "at most") } else { ("dec", "at least") };
            broken.push(format!("setmaxnreg.{which} {}: the warp owns {owned} and must own {how} that", set.count));
        }
        if !m.checked {
            broken.clear();
        }
        for rule in broken {
            self.fault(m, FindingKind::InvalidSync, set.instruction, w, lane, rule);
        }
        m.progress = true;
        if wrong_way {
            return Some(set.next);
        }
        let (asked, given) = (set.count.saturating_sub(owned) * 32, owned.saturating_sub(set.count) * 32);
        if asked > self.registers.pool {
            let part = &mut self.warps[w as usize].parts[i];
            (part.state, part.retries) = (PartState::Registers, true);
            return None;
        }
        self.registers.owned[w as usize] = set.count;
        self.registers.pool = self.registers.pool - asked + given;
        if given != 0 {
            self.retry_registers();
        }
        Some(set.next)
    }

    /// Makes parts that wait for registers try again.
    fn retry_registers(&mut self) {
        for (w, warp) in self.warps.iter_mut().enumerate() {
            for part in warp.parts.iter_mut().filter(|part| part.state == PartState::Registers) {
                part.state = PartState::Ready;
                self.ready |= 1 << w;
            }
        }
    }

    /// Describes the wait of a warp for registers.
    pub(super) fn waits_for_registers(&self, w: u32, set: &SetRegisters) -> String {
        let owned = self.registers.owned.get(w as usize).copied().unwrap_or(0);
        let (asked, pool) = (set.count.saturating_sub(owned) * 32, self.registers.pool);
        format!(
            "waits for {asked} more registers for the warp; the block's pool has {pool}, and no warp gives any back"
        )
    }

    /// Reports, at the end of the block, warpgroups in which only some warps have executed a
    /// `setmaxnreg`.
    pub(super) fn end_registers(&self, m: &mut Machine) {
        for (group, begun) in self.registers.begun.iter().enumerate() {
            let Some((instruction, done)) = begun.filter(|_| m.checked) else { continue };
            let w = group * WARPGROUP + done.trailing_zeros() as usize;
            let rule = "setmaxnreg was executed by some warps of a warpgroup only".to_owned();
            let w = u32::try_from(w).expect("at most 32 warps");
            self.fault(m, FindingKind::InvalidSync, instruction, w, 0, rule);
        }
    }

    fn note(&self, m: &mut Machine, instruction: u32, w: u32, lane: u32, rule: &str) {
        let fault = Fault {
            kind: FindingKind::InvalidSync,
            severity: Severity::Info,
            instruction,
            block: self.index,
            thread: w * 32 + lane,
            address: None,
            other: None,
            rule: rule.to_owned(),
        };
        m.fault(fault, false);
    }
}
