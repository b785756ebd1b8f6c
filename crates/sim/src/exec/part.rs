//! Execution of a part of a warp: basic block after basic block, until it waits, diverges, exits,
//! or has used up its slice.

use super::block::{Block, Context};
use super::code::{BlockId, Code, Terminator};
use super::frame;
use super::machine::Machine;
use super::op::{NONE, Op};
use super::stepping;
use super::warp::{Part, PartState};
use crate::undefined::follow;

/// Basic blocks in a part's slice.
const SLICE: u32 = 4096;
/// Basic blocks in a part's slice if the warp has diverged and the part may be spinning. More than
/// a compare-and-swap loop takes in which all lanes of a warp compete, so that the winners still
/// meet the others after it.
const SPINNING_SLICE: u32 = 512;
/// Outcome of running one part.
pub(super) enum Outcome {
    /// The part is gone, or waits; run another.
    Switch,
    /// Its slice is over.
    SliceOver,
    /// The run is over.
    Stop,
}

/// The running part: its warp, its position there, its lanes, and its current basic block.
#[derive(Clone, Copy)]
struct Running {
    w: u32,
    i: usize,
    mask: u32,
    block: BlockId,
}

impl Block {
    /// Runs part `i` of warp `w`.
    #[inline(never)]
    pub(super) fn run_part<const CHECKED: bool>(
        &mut self,
        w: u32,
        i: usize,
        m: &mut Machine,
        cx: &mut Context<'_>,
    ) -> Outcome {
        let code = cx.code;
        let part = &self.warps[w as usize].parts[i];
        let mut running = Running { w, i, mask: part.mask, block: part.block };
        let (mut joined, mut skip) = (part.join.is_some(), part.at_terminator);
        self.enter_frame(w, i, m, code);
        let (mut steps, mut rest) = (SPINNING_SLICE, SLICE - SPINNING_SLICE);
        loop {
            let b = &code.blocks[running.block as usize];
            if !skip {
                let counts = &mut cx.counts[running.block as usize];
                counts.0 += 1;
                counts.1 += u64::from(running.mask.count_ones());
                m.clock += u64::from(b.count);
                if CHECKED && m.is_stepped() {
                    stepping::run(m, code, b.start..b.end, running.mask);
                } else if CHECKED {
                    run_followed(m, code, b.start, b.end, running.mask);
                } else {
                    run_ops(m, code, b.start, b.end, running.mask);
                }
                if m.stop {
                    return Outcome::Stop;
                }
            }
            skip = false;
            if CHECKED
                && m.is_followed
                && let Terminator::Branch { predicate, taken, instruction, .. } = b.terminator
            {
                follow::branch(m, code, predicate, (instruction, taken), running.mask);
            }
            let is_stepped = CHECKED && m.is_stepped();
            let going = if is_stepped { stepping::begin(m, code, &b.terminator, running.mask) } else { 0 };
            let next = self.next_of(&b.terminator, running, m, cx);
            if is_stepped {
                stepping::end(m, code, &b.terminator, (running.mask, going), next.is_ok());
            }
            let next = match next {
                Ok(next) => next,
                Err(outcome) => return outcome,
            };
            if joined && self.meets(w, i, next) {
                match self.join(w, i, next) {
                    Some(part) => {
                        (running.mask, running.block, joined) = (part.mask, part.block, part.join.is_some());
                        continue;
                    }
                    None => return Outcome::Switch,
                }
            }
            running.block = next;
            steps -= 1;
            if steps == 0 {
                let warp = &self.warps[w as usize];
                let spins = m.waiting && (warp.parts.len() > 1 || warp.has_waiting_join());
                if rest > 0 && !spins {
                    (steps, rest) = (rest, 0);
                    continue;
                }
                self.pause(running, false);
                return Outcome::SliceOver;
            }
        }
    }

    /// The next block of a part, or the end of its run.
    #[inline(always)]
    fn next_of(
        &mut self,
        terminator: &Terminator,
        running: Running,
        m: &mut Machine,
        cx: &mut Context<'_>,
    ) -> Result<BlockId, Outcome> {
        match terminator {
            Terminator::Jump(next) => Ok(*next),
            Terminator::Branch { predicate, negated, taken, next, join, instruction } => {
                // SAFETY: the decoder gave the function this predicate.
                let p = unsafe { m.predicate(*predicate) };
                let Running { w, i, mask, .. } = running;
                let goes = mask & if *negated { !p } else { p };
                if goes == mask {
                    Ok(*taken)
                } else if goes == 0 {
                    Ok(*next)
                } else {
                    if let Some(instruction) = instruction {
                        m.counters[*instruction as usize].divergent += 1;
                    }
                    self.diverge(w, i, *join, &[(goes, *taken), (mask & !goes, *next)]);
                    Err(Outcome::Switch)
                }
            }
            // No lane is missing.
            Terminator::WarpSync { op, next, .. }
                if !m.checked && running.mask == self.warps[running.w as usize].live =>
            {
                if let Some(op) = op {
                    run_ops(m, cx.code, *op, *op + 1, running.mask);
                }
                Ok(*next)
            }
            terminator => self.meet_others(terminator, running, m, cx),
        }
    }

    /// Handles terminators at which a part may have to wait for others, and those with which it
    /// exits.
    #[inline(never)]
    fn meet_others(
        &mut self,
        terminator: &Terminator,
        running: Running,
        m: &mut Machine,
        cx: &mut Context<'_>,
    ) -> Result<BlockId, Outcome> {
        let (code, Running { w, i, mask, .. }) = (cx.code, running);
        if m.is_followed {
            follow::terminator(m, code, terminator, mask);
        }
        match terminator {
            Terminator::WarpSync { op, members, exchange, instruction, next } => {
                let needed = self.members(w, m, mask, *members, *instruction);
                if needed & !mask & self.warps[w as usize].live != 0 {
                    self.pause(running, true).state = PartState::WarpSync;
                    return Err(Outcome::Switch);
                }
                if m.checked && exchange.is_some() {
                    self.check_ended(w, m, (mask, needed), *instruction);
                }
                match op {
                    Some(op) => run_exchange(m, code, *op, mask),
                    None => self.warp_sync_done(w, m, *members, mask),
                }
                Ok(*next)
            }
            Terminator::MbarrierWait { op, next, .. } => {
                run_op(m, &code.ops[*op as usize], mask);
                if m.stop {
                    return Err(Outcome::Stop);
                }
                if self.waits_at_mbarrier(w, m) {
                    self.pause(running, true).state = PartState::Mbarrier;
                    return Err(Outcome::Switch);
                }
                Ok(*next)
            }
            Terminator::Barrier(barrier) => {
                self.pause(running, true);
                let next = self.reach_barrier(w, i, barrier, m, cx);
                next.ok_or(if m.stop { Outcome::Stop } else { Outcome::Switch })
            }
            Terminator::ClusterBarrier(barrier) => {
                self.pause(running, true);
                self.reach_cluster_barrier(w, i, barrier, m).ok_or(Outcome::Switch)
            }
            Terminator::SetRegisters(set) => {
                self.pause(running, true);
                self.set_registers(w, i, set, m).ok_or(Outcome::Switch)
            }
            terminator => {
                self.warps[w as usize].parts[i].block = running.block;
                Err(self.leave(w, i, terminator, m, cx))
            }
        }
    }

    /// Notes the block at which a part continues in its next slice.
    fn pause(&mut self, Running { w, i, block, .. }: Running, at_terminator: bool) -> &mut Part {
        let part = &mut self.warps[w as usize].parts[i];
        (part.block, part.at_terminator) = (block, at_terminator);
        part
    }

    /// Returns true if the join of a part waits at a block.
    #[inline(always)]
    fn meets(&self, w: u32, i: usize, block: BlockId) -> bool {
        let warp = &self.warps[w as usize];
        warp.joins[warp.parts[i].join.expect("a joined part") as usize].at == block
    }

    /// Moves a part to its join; returns the joined part, once all are there.
    #[inline(never)]
    fn join(&mut self, w: u32, i: usize, block: BlockId) -> Option<&Part> {
        let warp = &mut self.warps[w as usize];
        let part = warp.parts.swap_remove(i);
        let part = warp.arrive(part, block)?;
        warp.parts.push(part);
        let last = warp.parts.len() - 1;
        warp.parts.swap(i, last);
        if !warp.has_waiting_join() {
            warp.impatience = 0;
        }
        Some(&warp.parts[i])
    }

    /// Points the machine at the frame of part `i`.
    pub(super) fn enter_frame(&mut self, w: u32, i: usize, m: &mut Machine, code: &Code) {
        let warp = &mut self.warps[w as usize];
        let frame = warp.parts[i].frame;
        let function = &code.functions[frame.function as usize];
        frame::enter(m, warp, frame, function);
    }

    /// Splits part `i` by the targets of its lanes.
    #[inline(never)]
    pub(super) fn diverge(&mut self, w: u32, i: usize, join: BlockId, ways: &[(u32, BlockId)]) {
        let warp = &mut self.warps[w as usize];
        let part = warp.parts.swap_remove(i);
        let join = warp.open_join(&part, join);
        for &(mask, block) in ways {
            let side = Part { mask, join, ..part.clone() };
            if let Some(side) = warp.arrive(side, block) {
                warp.parts.push(side);
            }
        }
    }
}

/// Runs straight-line operations.
#[inline]
fn run_ops(m: &mut Machine, code: &Code, start: u32, end: u32, mask: u32) {
    for op in &code.ops[start as usize..end as usize] {
        run_op(m, op, mask);
    }
}

/// Runs straight-line operations of a checked program; follows values from uninitialised bytes,
/// once there are any.
#[inline]
pub(super) fn run_followed(m: &mut Machine, code: &Code, start: u32, end: u32, mask: u32) {
    if m.is_followed {
        return follow::run(m, code, start..end, mask);
    }
    for (at, op) in (start..).zip(&code.ops[start as usize..end as usize]) {
        run_op(m, op, mask);
        if m.is_followed {
            return follow::go_on(m, code, at, end, mask);
        }
    }
}

/// Runs the operation of an exchange.
pub(super) fn run_exchange(m: &mut Machine, code: &Code, op: u32, mask: u32) {
    if m.is_followed {
        follow::exchange(m, code, op, mask);
    } else {
        run_op(m, &code.ops[op as usize], mask);
    }
}

/// Runs one operation in the lanes of `mask` for which its guard is true.
#[inline(always)]
pub(crate) fn run_op(m: &mut Machine, op: &Op, mask: u32) {
    let mut active = mask;
    if op.guard != NONE {
        // SAFETY: the decoder gave the function this predicate.
        let p = unsafe { m.predicate(op.guard) };
        active &= if op.guard_negated { !p } else { p };
        if op.leads {
            m.counters[op.instruction as usize].guarded_off += u64::from((mask & !active).count_ones());
        }
        if active == 0 {
            return;
        }
    }
    // SAFETY: the decoder chose the handler for this host and this function's rows, and the
    // machine points at a frame of that function.
    unsafe {
        (op.run)(m, op, active);
    }
}
