//! Queue of a warp's pending `wgmma` operations: `wgmma.mma_async`, `commit_group`, `wait_group`.
//!
//! An issued product takes effect as late as the rules allow: when a `wait_group` covers it. Shared
//! memory and the registers of A are read then, and accumulators change then. Who touches an
//! accumulator before waits for its product first: ptxas injects that wait (C7517; C7515 for a
//! write). Of a product that is never waited for nothing is seen. Each warp computes its own 16 of
//! the 64 rows, so a queue a warp is all there is to it.
//!
//! A call or a return waits for everything, as ptxas makes it do ("wgmma serialised", C7509).

use std::sync::Arc;

use super::rules::{self, Registers};
use super::{expect_whole_warp, warpgroup};
use crate::exec::machine::Machine;
use crate::exec::op::{Handler, LaneOp, NONE, Op};
use crate::exec::row::ALL_LANES;

/// A product in flight.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Issued {
    /// Index into the operands of `wgmma`.
    pub tile: u32,
    /// The instruction.
    pub instruction: u32,
    /// The descriptor of A, if it is in shared memory.
    pub a: u64,
    /// The descriptor of B.
    pub b: u64,
    /// `scale-d`: adds the product to the accumulators.
    pub adds: bool,
}

/// The products that a warp has in flight.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    issued: Vec<Issued>,
    /// End of each group in `issued`.
    groups: Vec<usize>,
    /// State of the registers in checked runs.
    pub(super) registers: Registers,
}

impl Queue {
    /// Clears the queue.
    pub(crate) fn clear(&mut self) {
        self.issued.clear();
        self.groups.clear();
        self.registers.clear();
    }

    /// Products in flight, oldest first.
    pub(super) fn products(&self) -> impl Iterator<Item = &Issued> {
        self.issued.iter()
    }

    /// Products in flight, each with true if it was committed to a group.
    pub(super) fn products_by_group(&self) -> impl Iterator<Item = (&Issued, bool)> {
        let committed = self.groups.last().copied().unwrap_or(0);
        self.issued.iter().enumerate().map(move |(at, issued)| (issued, at < committed))
    }

    /// Returns true if nothing is in flight.
    pub(crate) fn is_empty(&self) -> bool {
        self.issued.is_empty()
    }
}

/// Executes the first `count` products in flight.
///
/// # Safety
/// As for a handler.
#[inline(always)]
unsafe fn carry_out(m: &mut Machine, count: usize) {
    // SAFETY: the queue belongs to the warp whose frame the machine points to, and nothing else
    // refers to it.
    let queue = unsafe { &mut *m.in_flight };
    let tables = Arc::clone(&m.tensor);
    for issued in queue.issued.drain(..count) {
        // SAFETY: passed on; calls and returns leave nothing in flight, so the frame is the one of
        // the instruction.
        unsafe { warpgroup::multiply(m, &tables.wgmma[issued.tile as usize], &issued) };
        if m.checked {
            rules::check_operands_read(m, &tables.wgmma[issued.tile as usize], &issued);
        }
    }
    for end in &mut queue.groups {
        *end = end.saturating_sub(count);
    }
    m.progress = true;
}

/// `wgmma.mma_async`: `imm` is the index of its operands, `a` and `b` are the rows of the
/// descriptors, `dst2` is the predicate `scale-d` and `c` whether it is negated.
pub(super) struct Issue<const CHECK: bool>;
impl<const CHECK: bool> LaneOp for Issue<CHECK> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        expect_whole_warp(m, op, mask);
        // SAFETY: the decoder checked the operands; the queue is the warp's.
        unsafe {
            let descriptor = |row: u32| if row == NONE { 0 } else { (&*m.lanes::<u64>(row))[0] };
            let adds = m.predicate(op.dst2) & 1 != op.c;
            let (tile, instruction) = (op.imm as u32, op.instruction);
            let issued = Issued { tile, instruction, a: descriptor(op.a), b: descriptor(op.b), adds };
            if CHECK {
                rules::check_issue(m, op, &issued);
                rules::check_operands_begin(m, &issued);
            }
            (*m.in_flight).issued.push(issued);
        }
    }
}

/// `wgmma.commit_group`.
pub(super) struct Commit<const CHECK: bool>;
impl<const CHECK: bool> LaneOp for Commit<CHECK> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        expect_whole_warp(m, op, mask);
        if CHECK {
            rules::check_step(m, op);
        }
        // SAFETY: the queue is the warp's.
        let queue = unsafe { &mut *m.in_flight };
        queue.groups.push(queue.issued.len());
    }
}

/// `wgmma.wait_group`: `imm` groups may stay in flight.
pub(super) struct Wait<const CHECK: bool>;
impl<const CHECK: bool> LaneOp for Wait<CHECK> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        expect_whole_warp(m, op, mask);
        if CHECK {
            rules::check_step(m, op);
        }
        // SAFETY: the queue is the warp's.
        let queue = unsafe { &mut *m.in_flight };
        let done = queue.groups.len().saturating_sub(op.imm as usize);
        if done != 0 {
            let count = queue.groups[done - 1];
            queue.groups.drain(..done);
            // SAFETY: passed on.
            unsafe { carry_out(m, count) };
        }
    }
}

/// Waits for all products up to the last one for which `is_wanted` is true.
pub(super) fn finish_up_to(m: &mut Machine, is_wanted: impl Fn(&Issued) -> bool) {
    // SAFETY: the queue is the warp's; the frame is the one of its instructions, as calls and returns
    // leave nothing in flight.
    unsafe {
        let last = (*m.in_flight).issued.iter().rposition(is_wanted);
        carry_out(m, last.map_or(0, |last| last + 1));
    }
}

/// Waits for everything, committed or not.
pub(super) struct Finish;
impl LaneOp for Finish {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, _: &Op, _: u32) {
        // SAFETY: the queue is the warp's; the rest is passed on.
        unsafe {
            (*m.in_flight).groups.clear();
            let count = (*m.in_flight).issued.len();
            carry_out(m, count);
        }
    }
}

/// Waits for all products of the current warp, before its frame is left.
pub(crate) fn finish(m: &mut Machine, handler: Option<Handler>) {
    // SAFETY: the machine points to the current warp's queue.
    let idle = unsafe { (*m.in_flight).is_empty() };
    if let (false, Some(handler)) = (idle, handler) {
        // SAFETY: the handler was chosen for this host; the frame is the one in which the products
        // were issued.
        unsafe { handler(m, &Op::new(handler), ALL_LANES) };
    }
}
