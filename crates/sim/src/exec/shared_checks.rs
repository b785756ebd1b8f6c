//! Checker hooks of accesses to the block's own shared memory.

use std::ops::RangeInclusive;
use std::sync::Arc;

use warpfold_ptx::Scope;

use super::checking::{Checking, described, stored};
use super::code::Placed;
use super::machine::Machine;
use super::memory_map::SHARED_WINDOW;
use super::op::Op;
use super::row::{ALL_LANES, LANES, mask_of};
use crate::check::{Kind, Pattern, Space, Values, WarpAccess};
use crate::memory_ops::access::{self, Access, Direction, address_fault};
use crate::report::FindingKind;

/// Returns the contents of `bytes` bytes of shared memory.
///
/// # Safety
/// They lie in the memory.
pub(super) unsafe fn held(memory: *const u8, offset: u32, bytes: u32) -> u128 {
    let mut buffer = [0u8; 16];
    // SAFETY: passed on; accesses have at most 16 bytes.
    unsafe { std::ptr::copy_nonoverlapping(memory.add(offset as usize), buffer.as_mut_ptr(), bytes as usize) };
    u128::from_le_bytes(buffer)
}

impl Machine {
    /// Checks a warp's load or store in shared memory; returns the lanes that may continue.
    #[inline(always)]
    pub(crate) fn check_shared<D: Direction>(
        &mut self,
        op: &Op,
        access: Access,
        at: &[u32; LANES],
        mask: u32,
        span: RangeInclusive<u32>,
    ) -> u32 {
        let kind = if D::LOAD { Kind::Read } else { Kind::Write };
        let pattern = Pattern::of(mask, at, access.bytes());
        self.shared_checked(op, access, kind, (at, pattern), mask, span, |m, lane| stored(m, op, access, lane))
    }

    /// Like [`Self::check_shared`], for all lanes of a warp that access words with a known address
    /// pattern.
    #[inline(always)]
    pub(crate) fn check_shared_words<D: Direction>(
        &mut self,
        op: &Op,
        access: Access,
        at: &[u32; LANES],
        pattern: Pattern,
    ) -> u32 {
        let kind = if D::LOAD { Kind::Read } else { Kind::Write };
        let (span, stored) = (at[0]..=at[LANES - 1], |m: &Self, lane| stored(m, op, access, lane));
        self.shared_checked(op, access, kind, (at, pattern), ALL_LANES, span, stored)
    }

    /// Checks a plain access of all lanes to consecutive words, or to one, in bounds of shared
    /// memory; returns `false`, with nothing done, if [`Self::check_shared_words`] must handle it.
    #[inline(always)]
    pub(crate) fn check_shared_line<D: Direction>(&mut self, op: &Op, first: u32, is_uniform: bool) -> bool {
        let access = WarpAccess { instr: op.instruction, warp: self.warp, reads: D::LOAD, first, is_uniform };
        // Peers' accesses never form lines. No closure: it would not be inlined.
        match &mut self.checking {
            Some(checking) if self.cluster.peers.len() <= 1 => checking.block.line_access(access),
            _ => false,
        }
    }

    /// Checks the matrices that a warp moves in shared memory: their rows of 16 bytes, at the
    /// addresses of `rows`. Four consecutive lanes load or store each (PTX ISA, "ldmatrix",
    /// "stmatrix"). Returns the rows that may continue; `stored` is the value written to each.
    #[inline(always)]
    pub(crate) fn check_matrices(
        &mut self,
        op: &Op,
        kind: Kind,
        (at, rows): (&[u32; LANES], u32),
        span: &RangeInclusive<u32>,
        stored: impl Fn(u32) -> u128,
    ) -> u32 {
        let word = Access::new(4, 1, false, access::Extend::Zero, None, Scope::Block);
        let span = *span.start()..=span.end().saturating_add(12);
        let mut good = 0;
        for first in (0..32).step_by(8).filter(|first| rows >> first & 0xff != 0) {
            let row = |lane: usize| first as usize + lane / 4;
            let words = std::array::from_fn(|lane| at[row(lane)].wrapping_add(lane as u32 % 4 * 4));
            let mask = mask_of(|lane| rows >> row(lane) & 1 != 0);
            let pattern = Pattern::of(mask, &words, 4);
            let value = |_: &Self, lane: u32| stored(first + lane / 4) >> (lane % 4 * 32) & 0xffff_ffff;
            let lanes = self.shared_checked(op, word, kind, (&words, pattern), mask, span.clone(), value);
            good |= (0..8).filter(|row| lanes >> (row * 4) & 0xf == 0xf).fold(0, |all, row| all | 1 << (first + row));
        }
        good
    }

    /// Checks a warp's atomic in shared memory; returns the lanes that may continue.
    pub(crate) fn check_shared_atomic(&mut self, op: &Op, access: Access, at: &[u32; LANES], mask: u32) -> u32 {
        let pattern = Pattern::of(mask, at, access.bytes());
        self.shared_checked(op, access, Kind::Atomic, (at, pattern), mask, 0..=u32::MAX, |_, _| 0)
    }

    /// Checks an access; `span` is the lowest and the highest address, `stored` a lane's value.
    ///
    /// NOTE: not inlined into every handler of shared memory, where it was most of the code.
    #[inline(never)]
    #[allow(clippy::too_many_arguments, reason = "an access and what it stores")]
    fn shared_checked(
        &mut self,
        op: &Op,
        access: Access,
        kind: Kind,
        (at, pattern): (&[u32; LANES], Pattern),
        mask: u32,
        span: RangeInclusive<u32>,
        stored: impl Fn(&Self, u32) -> u128,
    ) -> u32 {
        let end = span.end().saturating_add(access.bytes());
        let in_one = |p: &Placed| p.offset <= *span.start() && end <= p.offset + p.bytes;
        let (mask, pattern) = if self.shared_map.iter().any(in_one) {
            (mask, pattern)
        } else {
            let good = self.in_variables(op, access, at, mask);
            (good, Pattern::of(good, at, access.bytes()))
        };
        if mask == 0 {
            return 0;
        }
        let Some(mut checking) = self.checking.take() else { return mask };
        let checked = described(self, op, access, kind, mask);
        let memory = self.shared;
        let held = |lane: u32| {
            // SAFETY: the lanes of the access are in bounds of the block's shared memory.
            unsafe { held(memory, at[lane as usize], access.bytes()) }
        };
        let stored = |lane: u32| stored(self, lane);
        let values = Values { stored: &stored, held: &held };
        let values = (kind == Kind::Write).then_some(&values);
        let Checking { launch, block, findings } = &mut *checking;
        block.shared_access_of(&checked, (at, pattern), values, findings);
        match self.own_memory() {
            Some(own) => block.cluster_access(launch, &own, &checked, at, values, findings),
            None if access.is_strong() => block.release(launch, Space::Shared, &checked, &at.map(u64::from)),
            None => {}
        }
        self.checking = Some(checking);
        mask
    }

    /// Returns the lanes whose access is inside one variable; reports the others, which are in a
    /// gap between variables.
    #[cold]
    #[inline(never)]
    pub(super) fn in_variables(&mut self, op: &Op, access: Access, at: &[u32; LANES], mask: u32) -> u32 {
        let bytes = access.bytes();
        let map = Arc::clone(&self.shared_map);
        let holds = |p: &Placed, offset: u32| p.offset <= offset && offset.saturating_add(bytes) <= p.offset + p.bytes;
        let mut good = 0;
        for lane in 0..32u32 {
            if mask >> lane & 1 == 0 {
                continue;
            }
            let offset = at[lane as usize];
            if map.iter().any(|p| holds(p, offset)) {
                good |= 1 << lane;
            } else {
                let address = SHARED_WINDOW + u64::from(offset);
                let rule = format!("an access of {bytes} bytes outside every shared variable");
                address_fault(self, op, FindingKind::OutOfBounds, lane, address, rule);
            }
        }
        good
    }
}
