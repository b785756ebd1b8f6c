//! Execution of a warp with undefined values, one instruction at a time.

use std::ops::Range;

use super::Mark;
use super::flow::{Flow, Role};
use super::memory::local_lanes;
use super::sample::run_all;
use crate::check::Rule;
use crate::exec::code::{BlockId, CallSlot, Code, Terminator};
use crate::exec::machine::Machine;
use crate::exec::op::{NONE, Op};
use crate::memory_ops::access::{Access, element_rows};
use crate::tensor_ops::matrix::leave_matrix;

/// Runs the operations `range` of a basic block.
#[inline(never)]
pub(crate) fn run(m: &mut Machine, code: &Code, range: Range<u32>, mask: u32) {
    let mut at = range.start;
    while at < range.end {
        let end = end_of(code, at, range.end);
        let ops = &code.ops[at as usize..end as usize];
        let flow = &code.flows[ops[0].instruction as usize];
        if flow.ends_block {
            // Conversions of what a terminator exchanges: its results count as defined.
            run_all(m, ops, mask);
        } else {
            step(m, flow, ops, mask);
        }
        at = end;
    }
    m.forget_if_defined();
}

/// Continues after the operation at `at`, whose load was the first of uninitialised bytes.
#[cold]
#[inline(never)]
pub(crate) fn go_on(m: &mut Machine, code: &Code, at: u32, end: u32, mask: u32) {
    let op = &code.ops[at as usize];
    let next = end_of(code, at, end);
    let flow = &code.flows[op.instruction as usize];
    let rest = &code.ops[at as usize + 1..next as usize];
    if flow.ends_block {
        // Loads of other registers of a matrix.
        run_all(m, rest, mask);
    } else {
        loaded(m, flow, op, rest, mask);
    }
    run(m, code, next..end, mask);
}

/// Runs the operation of a terminator.
#[inline(never)]
pub(crate) fn exchange(m: &mut Machine, code: &Code, at: u32, mask: u32) {
    let ops = &code.ops[at as usize..at as usize + 1];
    step(m, &code.flows[ops[0].instruction as usize], ops, mask);
    m.forget_if_defined();
}

/// Follows a branch by a predicate: the `bra`, or the guard of the instruction that `taken` begins
/// with.
#[inline(never)]
pub(crate) fn branch(m: &mut Machine, code: &Code, predicate: u32, (by, taken): (Option<u32>, BlockId), mask: u32) {
    let slot = CallSlot::Predicate(predicate);
    if m.undefined_lanes(slot) & mask != 0 {
        let first = || code.instructions.iter().position(|info| info.block == taken);
        let by = by.or_else(|| first().and_then(|at| u32::try_from(at).ok()));
        m.report_use(by.unwrap_or_default(), Rule::UndefinedBranch, slot, mask);
    }
}

/// Follows another terminator, except for one that exchanges values in a warp.
#[inline(never)]
pub(crate) fn terminator(m: &mut Machine, code: &Code, terminator: &Terminator, mask: u32) {
    let (instruction, rule) = match terminator {
        Terminator::Switch { instruction, .. } => (*instruction, Rule::UndefinedBranch),
        Terminator::Barrier(barrier) => (barrier.instruction, Rule::UndefinedOperand),
        Terminator::MbarrierWait { instruction, .. } => (*instruction, Rule::UndefinedOperand),
        _ => return,
    };
    let flow = &code.flows[instruction as usize];
    flow.reads.iter().for_each(|&slot| m.report_use(instruction, rule, slot, mask));
    flow.writes.iter().for_each(|&slot| m.define(slot, mask));
}

/// End of the operations of one instruction.
fn end_of(code: &Code, at: u32, end: u32) -> u32 {
    (at + 1..end).find(|&next| code.ops[next as usize].leads).unwrap_or(end)
}

fn step(m: &mut Machine, flow: &Flow, ops: &[Op], mask: u32) {
    let instruction = ops[0].instruction;
    let reads_any = flow.reads.iter().any(|&slot| m.undefined_lanes(slot) != 0);
    match flow.role {
        Role::Moves | Role::Computes | Role::Compares if reads_any => {
            return m.sample(ops, mask, (&flow.reads, &flow.writes), flow.role);
        }
        Role::Stores => return store(m, flow, ops, mask),
        _ => {}
    }
    let lanes = m.lanes_of_guard(&ops[0], mask).0;
    if reads_any && matches!(flow.role, Role::Loads | Role::Uses) {
        let rule = if flow.role == Role::Loads { Rule::UndefinedAddress } else { Rule::UndefinedOperand };
        flow.reads.iter().for_each(|&slot| report(m, instruction, rule, slot, (mask, lanes)));
    }
    if flow.role != Role::Loads {
        run_all(m, ops, mask);
        flow.writes.iter().for_each(|&slot| m.define(slot, lanes));
        return;
    }
    flow.writes.iter().for_each(|&slot| m.define(slot, lanes));
    let (before, rest) = ops.split_at((flow.main as usize).min(ops.len() - 1));
    let (main, rest) = (&rest[0], &rest[1..]);
    run_all(m, before, mask);
    let at = flow.space.map(|space| m.accessed(main, space));
    run_all(m, &ops[before.len()..=before.len()], mask);
    if let Some(at) = at {
        m.load_local(main, &at, lanes);
    }
    loaded(m, flow, main, rest, mask);
}

/// Reports undefined bits that control an access: a guard in all lanes, an address in those that
/// have one.
fn report(m: &mut Machine, instruction: u32, rule: Rule, slot: CallSlot, (mask, lanes): (u32, u32)) {
    match slot {
        CallSlot::Predicate(_) => m.report_use(instruction, Rule::UndefinedBranch, slot, mask),
        _ => m.report_use(instruction, rule, slot, lanes),
    }
}

/// Ends a load, except for `rest`, which fills wider registers than it loads.
fn loaded(m: &mut Machine, flow: &Flow, main: &Op, rest: &[Op], mask: u32) {
    if rest.is_empty() || flow.space.is_none() {
        return;
    }
    let elements = elements(main);
    m.sample(rest, mask, (&elements, &flow.writes), Role::Moves);
    for slot in elements.into_iter().filter(|slot| !flow.writes.contains(slot)) {
        m.define(slot, mask);
    }
}

/// The registers of the elements of a load or store.
fn elements(op: &Op) -> Vec<CallSlot> {
    let access = Access(op.dst2);
    let rows = super::rows_of(access.element());
    element_rows(op).into_iter().take(access.count() as usize).map(|row| CallSlot::Register { row, rows }).collect()
}

fn store(m: &mut Machine, flow: &Flow, ops: &[Op], mask: u32) {
    let instruction = ops[0].instruction;
    let lanes = m.lanes_of_guard(&ops[0], mask).0;
    let (before, rest) = ops.split_at((flow.main as usize).min(ops.len() - 1));
    let main = &rest[0];
    for &slot in &flow.reads {
        let is_address = matches!(slot, CallSlot::Register { row, .. } if main.a != NONE && row == main.a);
        if is_address || matches!(slot, CallSlot::Predicate(_)) {
            report(m, instruction, Rule::UndefinedAddress, slot, (mask, lanes));
        }
    }
    let Some(space) = flow.space else {
        // A matrix.
        let values = flow.reads.iter().filter(|slot| matches!(slot, CallSlot::Register { .. }));
        for &slot in values {
            let computed = m.mark(slot).map_or(0, Mark::used_by_a_store);
            m.report_use(instruction, Rule::UndefinedStore, slot, lanes & computed);
        }
        run_all(m, ops, mask);
        return leave_matrix(m, main);
    };
    let elements = elements(main);
    if before.is_empty() {
        run_all(m, before, mask);
    } else {
        m.sample(before, mask, (&flow.reads, &elements), Role::Moves);
    }
    let at = m.accessed(main, space);
    let beyond = lanes & !local_lanes(&at);
    for &slot in &elements {
        let computed = m.mark(slot).map_or(0, Mark::used_by_a_store);
        m.report_use(instruction, Rule::UndefinedStore, slot, beyond & computed);
    }
    let marks: Vec<Option<Mark>> = elements.iter().map(|&slot| m.mark(slot).cloned()).collect();
    run_all(m, rest, mask);
    m.leave_stored(main, &at, lanes, &marks);
    for slot in elements.into_iter().filter(|slot| !flow.reads.contains(slot)) {
        m.define(slot, mask);
    }
}
