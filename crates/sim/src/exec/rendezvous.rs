//! Warp-level synchronisation: diverged parts of a warp that wait for each other at `.sync`
//! instructions.

use super::block::{Block, Context};
use super::code::{Code, Terminator};
use super::lanes;
use super::machine::{Fault, Machine};
use super::meeting::exchange_of;
use super::part::run_exchange;
use super::row::LANES;
use super::warp::{Part, PartState};
use crate::report::{FindingKind, Severity};

impl Block {
    /// The union of the member masks of the lanes of `mask`.
    pub(super) fn members(&self, w: u32, m: &mut Machine, mask: u32, row: u32, instruction: u32) -> u32 {
        // SAFETY: the decoder gave the function this row.
        let members = unsafe { m.read::<u32>(row) };
        let first = members[(mask.trailing_zeros() % 32) as usize];
        let (mut needed, mut outside) = (first, mask & !first);
        // Nearly always all lanes have the same mask.
        if lanes::differing(&members, first, 0) & mask != 0 {
            (needed, outside) = (0, 0);
            for lane in (0..LANES).filter(|lane| mask >> lane & 1 != 0) {
                needed |= members[lane];
                outside |= u32::from(members[lane] >> lane & 1 == 0) << lane;
            }
        }
        if outside != 0 && m.checked {
            let lane = outside.trailing_zeros();
            let rule =
                format!("the member mask {:#010x} does not name the executing lane {lane}", members[lane as usize]);
            self.fault(m, FindingKind::InvalidSync, instruction, w, lane, rule);
        }
        needed
    }

    /// Warns of an exchange whose member mask includes lanes that have exited: it does not wait for
    /// them, and they provide no values.
    pub(super) fn check_ended(&self, w: u32, m: &mut Machine, (mask, needed): (u32, u32), instruction: u32) {
        let warp = &self.warps[w as usize];
        let ended = needed & warp.initial & !warp.live;
        if ended == 0 {
            return;
        }
        let rule =
            format!("the member mask names lanes {ended:#010x}, which have ended: the others exchange without them");
        let (severity, thread) = (Severity::Warning, w * 32 + mask.trailing_zeros());
        let (kind, block) = (FindingKind::InvalidSync, self.index);
        m.fault(Fault { kind, severity, instruction, block, thread, address: None, other: None, rule }, false);
    }

    /// Tells the checker about a `bar.warp.sync`. The exchanges order no memory accesses (PTX ISA,
    /// `bar.warp.sync` does).
    pub(super) fn warp_sync_done(&self, w: u32, m: &mut Machine, members: u32, mask: u32) {
        if m.checked {
            // SAFETY: the decoder gave the function this row.
            let members = unsafe { m.read::<u32>(members) };
            m.check_warp_sync(&members, mask, self.warps[w as usize].live);
        }
    }

    /// Releases parts that wait for each other at warp-level synchronising instructions.
    pub(super) fn complete_warp_sync(&mut self, w: u32, m: &mut Machine, cx: &Context<'_>) -> bool {
        let code = cx.code;
        if !self.warps[w as usize].parts.iter().any(|part| part.state == PartState::WarpSync) {
            return false;
        }
        let waiting: Vec<usize> = (0..self.warps[w as usize].parts.len())
            .filter(|&i| self.warps[w as usize].parts[i].state == PartState::WarpSync)
            .collect();
        for &i in &waiting {
            let first = self.warps[w as usize].parts[i].clone();
            let Terminator::WarpSync { op, members, instruction, .. } = code.blocks[first.block as usize].terminator
            else {
                unreachable!("a part that waits at a warp synchronisation is at one")
            };
            self.enter_frame(w, i, m, code);
            let named = self.members(w, m, first.mask, members, instruction);
            let needed = named & self.warps[w as usize].live;
            // A plain barrier and most exchanges may be reached at different instructions; what
            // multiplies or moves matrices has to be the same one.
            let qualifiers = exchange_of(code, first.block).map(|exchange| &exchange.qualifiers);
            let is_alike = |block| {
                qualifiers.is_some() && exchange_of(code, block).map(|exchange| &exchange.qualifiers) == qualifiers
            };
            let together: Vec<usize> = waiting
                .iter()
                .copied()
                .filter(|&j| {
                    let other = &self.warps[w as usize].parts[j];
                    let same = other.block == first.block && other.frame == first.frame;
                    let plain =
                        matches!(code.blocks[other.block as usize].terminator, Terminator::WarpSync { op: None, .. });
                    // All lanes that the part waits for may have exited; then it continues alone.
                    (j == i || other.mask & needed != 0) && (same || op.is_none() && plain || is_alike(other.block))
                })
                .collect();
            let union = together.iter().fold(0, |all, &j| all | self.warps[w as usize].parts[j].mask);
            if needed & !union != 0 {
                continue;
            }
            if m.checked && qualifiers.is_some() {
                self.check_ended(w, m, (first.mask, named), instruction);
            }
            let is_one_place = together.iter().all(|&j| {
                let other = &self.warps[w as usize].parts[j];
                other.block == first.block && other.frame == first.frame
            });
            match op {
                Some(op) if is_one_place => run_exchange(m, code, op, union),
                Some(_) => self.exchange_together(w, m, code, &together),
                None => self.warp_sync_done(w, m, members, first.mask),
            }
            self.pass_warp_sync(w, &together, code);
            return true;
        }
        false
    }

    /// Advances parts past their synchronising instruction, and merges those that belong together.
    fn pass_warp_sync(&mut self, w: u32, together: &[usize], code: &Code) {
        let warp = &mut self.warps[w as usize];
        let mut passed: Vec<Part> = Vec::new();
        for &j in together.iter().rev() {
            let part = warp.parts.remove(j);
            match passed.iter_mut().find(|p| {
                p.block == part.block && p.join == part.join && p.frame == part.frame && p.callers == part.callers
            }) {
                Some(same) => same.mask |= part.mask,
                None => passed.push(part),
            }
        }
        for part in passed {
            let Terminator::WarpSync { next, .. } = code.blocks[part.block as usize].terminator else {
                unreachable!("a part that waits at a warp synchronisation is at one")
            };
            if let Some(part) = warp.arrive(part, next) {
                warp.parts.push(part);
            }
        }
    }
}
