//! Determines the bits of a result that depend on undefined ones: runs the instruction with several
//! values for them, and compares.

use super::{Mark, Origin};
use crate::exec::block::lanes_of;
use crate::exec::code::CallSlot;
use crate::exec::machine::Machine;
use crate::exec::op::{NONE, Op};
use crate::exec::part::run_op;
use crate::exec::row::LANES;
use crate::undefined::flow::Role;

/// Number of values tried for every instruction, and of additional ones for comparisons.
const SAMPLES: u32 = 8;
const OF_COMPARISONS: u32 = 3;

/// A source with undefined bits.
struct Source {
    slot: CallSlot,
    mark: Mark,
    /// Values of the source.
    before: [u128; LANES],
    /// Values of the operand that it is compared with.
    rival: Option<[u128; LANES]>,
}

/// Pseudorandom bits.
fn drawn(seed: u64) -> u128 {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d;
    let mut next = || {
        x ^= x >> 29;
        x = x.wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x ^= x >> 32;
        u128::from(x)
    };
    next() << 64 | next()
}

impl Source {
    /// Value `n` of a lane.
    fn value(&self, n: u32, lane: usize) -> u128 {
        let (bits, before) = (self.mark.bits[lane], self.before[lane]);
        if bits == 0 {
            return before;
        }
        let top = 1 << (127 - bits.leading_zeros());
        let rival = self.rival.map_or(before, |rival| rival[lane]);
        let row = match self.slot {
            CallSlot::Register { row, .. } => row,
            CallSlot::Predicate(p) => p,
            CallSlot::Local { offset, .. } => offset,
        };
        let new = match n {
            0 => !before,
            1 => 0,
            2 => u128::MAX,
            3 => !top,
            4 => top,
            5 => u128::MAX / 3,
            6 | 7 => drawn(u64::from(n) << 48 | u64::from(row) << 8 | lane as u64),
            8 => rival,
            9 => rival.wrapping_add(1),
            _ => rival.wrapping_sub(1),
        };
        before & !bits | new & bits
    }
}

/// State that sample runs must restore.
struct Kept {
    checked: bool,
    stop: bool,
    faults: Vec<(crate::exec::machine::Fault, u64)>,
    counters: crate::counters::AccessCounters,
}

impl Machine {
    /// Runs the operations of one instruction, and marks the result bits that depend on undefined
    /// source bits. Has no effect outside the registers of the warp.
    pub(super) fn sample(&mut self, ops: &[Op], mask: u32, (reads, writes): (&[CallSlot], &[CallSlot]), role: Role) {
        let Some(first) = ops.first() else { return };
        let (lanes, is_open) = self.lanes_of_guard(first, mask);
        let lanes = if is_open { mask } else { lanes };
        let rival_of = |slot: CallSlot| {
            let CallSlot::Register { row, rows } = slot else { return None };
            let op = ops.iter().find(|op| op.a != NONE && op.b != NONE && (op.a == row || op.b == row))?;
            Some(CallSlot::Register { row: if op.a == row { op.b } else { op.a }, rows })
        };
        let mut sources = Vec::new();
        for &slot in reads {
            if let Some(mark) = self.mark(slot).cloned() {
                let rival = if role == Role::Compares { rival_of(slot) } else { None };
                let (before, rival) = (self.values(slot), rival.map(|slot| self.values(slot)));
                sources.push(Source { slot, mark, before, rival });
            }
        }
        let before: Vec<_> = writes.iter().map(|&slot| self.values(slot)).collect();
        run_all(self, ops, mask);
        if sources.is_empty() {
            writes.iter().for_each(|&slot| self.define(slot, lanes));
            return;
        }
        let after: Vec<_> = writes.iter().map(|&slot| self.values(slot)).collect();
        let mut differ = vec![[0u128; LANES]; writes.len()];
        let kept = self.keep_from_samples(first.instruction);
        let samples = if role == Role::Compares { SAMPLES + OF_COMPARISONS } else { SAMPLES };
        for n in 0..samples {
            writes.iter().zip(&before).for_each(|(&slot, before)| self.set_values(slot, before));
            for source in &sources {
                self.set_values(source.slot, &std::array::from_fn(|lane| source.value(n, lane)));
            }
            run_all(self, ops, mask);
            for ((&slot, after), differ) in writes.iter().zip(&after).zip(&mut differ) {
                let now = self.values(slot);
                (0..LANES).for_each(|lane| differ[lane] |= now[lane] ^ after[lane]);
            }
        }
        self.restore_after_samples(first.instruction, kept);
        sources.iter().for_each(|source| self.set_values(source.slot, &source.before));
        writes.iter().zip(&after).for_each(|(&slot, after)| self.set_values(slot, after));
        let (computed, origin) = inherited(&sources, role);
        for (&slot, bits) in writes.iter().zip(differ) {
            self.put_mark(slot, &Mark { bits, computed, origin }, lanes);
        }
    }

    /// The lanes in which an operation runs, and true if a guard with undefined bits decides that.
    pub(super) fn lanes_of_guard(&mut self, op: &Op, mask: u32) -> (u32, bool) {
        if op.guard == NONE {
            return (mask, false);
        }
        let is_open = self.undefined_lanes(CallSlot::Predicate(op.guard)) & mask != 0;
        // SAFETY: the decoder gave the function this predicate.
        let p = unsafe { self.predicate(op.guard) };
        (mask & if op.guard_negated { !p } else { p }, is_open)
    }

    fn keep_from_samples(&mut self, instruction: u32) -> Kept {
        Kept {
            checked: std::mem::take(&mut self.checked),
            stop: self.stop,
            faults: std::mem::take(&mut self.faults),
            counters: self.counters[instruction as usize],
        }
    }

    fn restore_after_samples(&mut self, instruction: u32, kept: Kept) {
        let Kept { checked, stop, faults, counters } = kept;
        (self.checked, self.stop, self.faults) = (checked, stop, faults);
        self.counters[instruction as usize] = counters;
    }
}

/// Runs operations one after the other.
pub(super) fn run_all(m: &mut Machine, ops: &[Op], mask: u32) {
    ops.iter().for_each(|op| run_op(m, op, mask));
}

/// The lanes with computed values, and the origins of undefined bits: the same lane of a source, or
/// else any lane.
fn inherited(sources: &[Source], role: Role) -> (u32, [Origin; LANES]) {
    let any = sources.iter().find_map(|source| {
        let lane = lanes_of(source.mark.lanes()).next()?;
        Some((source, lane as usize))
    });
    let Some((some, some_lane)) = any else { return (0, sources[0].mark.origin) };
    let mut computed = if role == Role::Moves { 0 } else { u32::MAX };
    let origin = std::array::from_fn(|lane| {
        let own = sources.iter().filter(|source| source.mark.bits[lane] != 0);
        let from = own.clone().next().map_or((some, some_lane), |source| (source, lane));
        let was = own.fold(from.0.mark.computed >> from.1 & 1, |was, source| was | source.mark.computed >> lane & 1);
        computed |= was << lane;
        from.0.mark.origin[from.1]
    });
    (computed, origin)
}
