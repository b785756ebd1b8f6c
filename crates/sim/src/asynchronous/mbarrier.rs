//! `mbarrier` and `cp.async.mbarrier.arrive` (PTX ISA, "mbarrier").

use warpfold_ptx::{Instruction, Operand, ScalarType as T};

use super::address::shared_row;
use super::barrier_object::Barrier;
use super::thread_copies::Arrival;
use crate::Error;
use crate::decode::Decoder;
use crate::exec::cluster::Place;
use crate::exec::machine::{Fault, Machine};
use crate::exec::memory_map::{SHARED_WINDOW, in_block};
use crate::exec::op::{LaneOp, NONE, Op};
use crate::exec::row::LANES;
use crate::memory_ops::access::address_fault;
use crate::report::{FindingKind, Severity};

/// Operation on an mbarrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Init,
    Inval,
    Arrive,
    ArriveDrop,
    Expect,
    Complete,
    CopyArrive,
}

const ACTIONS: [Action; 7] = [
    Action::Init,
    Action::Inval,
    Action::Arrive,
    Action::ArriveDrop,
    Action::Expect,
    Action::Complete,
    Action::CopyArrive,
];

/// Flags above the action in the low bits of `imm`.
const NO_COMPLETE: i64 = 1 << 4;
const EXPECTS: i64 = 1 << 5;
const RELAXED: i64 = 1 << 6;
const NO_INCREMENT: i64 = 1 << 7;

/// Any operation except a wait: `a` the address, `b` the count, `c` the bytes, `dst` the state
/// before.
struct Act;
impl LaneOp for Act {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operands.
        unsafe { act(m, op, mask) }
    }
}

/// # Safety
/// As for a handler.
#[inline(never)]
unsafe fn act(m: &mut Machine, op: &Op, mask: u32) {
    // SAFETY: passed on.
    let (at, counts, bytes) = unsafe {
        let number = |row: u32| if row == NONE { [1; LANES] } else { m.read::<u32>(row) };
        (m.read::<u64>(op.a), number(op.b), number(op.c))
    };
    let action = ACTIONS[(op.imm & 0xf) as usize];
    let mut states = [0u64; LANES];
    for lane in (0..32u32).filter(|lane| mask >> lane & 1 != 0) {
        let l = lane as usize;
        let Some(place) = m.barrier_place(op, at[l], lane) else { continue };
        if !place.is_own && op.dst != NONE {
            m.fault_at(op, FindingKind::InvalidSync, lane, "a barrier of another block gives no state".to_owned());
            continue;
        }
        let before = m.barrier_bits(place);
        states[l] = before;
        let result = match (action, Barrier::decode(before)) {
            (Action::Init, _) => Barrier::new(counts[l]).map(Some),
            (Action::Inval, Some(_)) => Ok(None),
            (_, None) => Err("no mbarrier lies here: it was not initialised, or is not valid any more".to_owned()),
            (_, Some(barrier)) => changed(op, action, barrier, (counts[l], bytes[l])).map(Some),
        };
        match result {
            Ok(after) => m.change_barrier(op, action, (place, lane), after),
            Err(rule) => m.barrier_fault(op, (place, lane), rule),
        }
    }
    if op.dst != NONE {
        // SAFETY: passed on.
        unsafe { m.write(op.dst, &states, mask) };
    }
}

/// The barrier's state after an action.
fn changed(op: &Op, action: Action, mut barrier: Barrier, (count, bytes): (u32, u32)) -> Result<Barrier, String> {
    if op.imm & EXPECTS != 0 {
        barrier.add_bytes(bytes.into())?;
    }
    match action {
        Action::Arrive => barrier.arrive(count, false)?,
        Action::ArriveDrop => barrier.arrive(count, true)?,
        Action::Expect => barrier.add_bytes(bytes.into())?,
        Action::Complete => barrier.add_bytes(-i64::from(bytes))?,
        Action::CopyArrive if op.imm & NO_INCREMENT == 0 => barrier.expect_arrival()?,
        Action::CopyArrive | Action::Init | Action::Inval => {}
    }
    if op.imm & NO_COMPLETE != 0 && barrier.is_complete() {
        return Err("an arrival with .noComplete completes the phase".to_owned());
    }
    Ok(barrier)
}

impl Machine {
    /// Location of a barrier, if the address is a valid one.
    pub(super) fn barrier_place(&mut self, op: &Op, at: u64, lane: u32) -> Option<Place> {
        let place = u32::try_from(at).ok().and_then(|at| self.place(at));
        let (kind, rule) = match place {
            Some(place) if !place.offset.is_multiple_of(8) => {
                (FindingKind::Misaligned, "an mbarrier must be aligned to 8 bytes")
            }
            Some(place) if place.offset.saturating_add(8) <= self.shared_bytes => return Some(place),
            _ => (FindingKind::OutOfBounds, "an mbarrier outside shared memory"),
        };
        address_fault(self, op, kind, lane, SHARED_WINDOW.wrapping_add(at), rule.to_owned());
        None
    }

    /// The bits of a barrier.
    pub(crate) fn barrier_bits(&self, place: Place) -> u64 {
        // SAFETY: the place was found inside the block's shared memory, aligned.
        unsafe { *place.shared.add(place.offset as usize).cast::<u64>() }
    }

    fn set_barrier(&mut self, place: Place, bits: u64) {
        // SAFETY: as above.
        unsafe { *place.shared.add(place.offset as usize).cast::<u64>() = bits };
        self.progress = true;
    }

    /// Stores a barrier.
    pub(super) fn write_barrier(&mut self, place: Place, barrier: Barrier) {
        self.set_barrier(place, barrier.encode());
    }

    /// Records a misuse of a barrier by a thread.
    pub(super) fn barrier_fault(&mut self, op: &Op, (place, lane): (Place, u32), rule: String) {
        let address = if place.is_own { place.offset } else { in_block(place.rank, place.offset) };
        let fault = Fault {
            kind: FindingKind::InvalidSync,
            severity: Severity::Error,
            instruction: op.instruction,
            block: self.block,
            thread: self.thread(lane),
            address: Some((SHARED_WINDOW + u64::from(address), self.describe_shared(u64::from(place.offset)))),
            other: None,
            rule,
        };
        let stop = !self.checked;
        self.fault(fault, stop);
    }

    /// Stores the result of an action on a barrier, and tells the checker.
    fn change_barrier(&mut self, op: &Op, action: Action, (place, lane): (Place, u32), after: Option<Barrier>) {
        let Some(after) = after else {
            self.set_barrier(place, 0);
            return self.check_barrier_ends(op, place, lane);
        };
        self.set_barrier(place, after.encode());
        let is_release = op.imm & RELAXED == 0;
        match action {
            Action::Init => return self.check_barrier_begins(op, place, lane),
            Action::Arrive | Action::ArriveDrop => self.check_barrier_use(op, (place, lane), is_release),
            Action::Expect | Action::Complete => self.check_barrier_use(op, (place, lane), false),
            Action::CopyArrive => {
                self.check_barrier_use(op, (place, lane), false);
                let warp = self.warp;
                let issued = self.asynchronous.copies[warp as usize].issued();
                let arrival = Arrival { warp, lane, barrier: place.offset, issued };
                self.asynchronous.arrivals.push(arrival);
            }
            Action::Inval => {}
        }
        self.complete_phase(place, after);
    }

    /// Advances the barrier to its next phase if the current one is complete; returns true if it
    /// was.
    pub(super) fn complete_phase(&mut self, place: Place, mut barrier: Barrier) -> bool {
        if !barrier.is_complete() {
            return false;
        }
        barrier.advance();
        self.set_barrier(place, barrier.encode());
        if place.is_own {
            self.asynchronous.woken = true;
            self.check_phase_completes(place.offset, barrier.parity);
        } else {
            self.cluster.wake |= 1 << place.rank;
        }
        true
    }
}

/// `mbarrier.test_wait`, `.try_wait`: `a` the address, `b` the state (64 bits) or the parity (32
/// bits, if `imm` has the low bit).
struct Wait;
impl LaneOp for Wait {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operands.
        unsafe { wait(m, op, mask) }
    }
}

/// # Safety
/// As for a handler.
#[inline(never)]
unsafe fn wait(m: &mut Machine, op: &Op, mask: u32) {
    // SAFETY: passed on.
    let (at, parities) = unsafe {
        let parities = if op.imm & 1 != 0 {
            m.read::<u32>(op.b).map(Some)
        } else {
            m.read::<u64>(op.b).map(|state| Barrier::decode(state).map(|b| u32::from(b.parity)))
        };
        (m.read::<u64>(op.a), parities)
    };
    m.land_early();
    let mut complete = 0;
    m.asynchronous.waited_for.clear();
    for lane in (0..32u32).filter(|lane| mask >> lane & 1 != 0) {
        let Some(place) = m.barrier_place(op, at[lane as usize], lane) else { continue };
        let barrier = Barrier::decode(m.barrier_bits(place));
        let rule = match (place.is_own, barrier, parities[lane as usize]) {
            (false, ..) => "a thread can wait at barriers of its own block only".to_owned(),
            (true, None, _) => "no mbarrier lies here: it was not initialised, or is not valid any more".to_owned(),
            (true, Some(_), None) => "the state is not one that an arrival gave".to_owned(),
            (true, Some(_), Some(parity @ 2..)) => format!("the parity of a phase is 0 or 1, not {parity}"),
            (true, Some(barrier), Some(parity)) => {
                if parity == u32::from(barrier.parity) {
                    m.asynchronous.waited_for.push(place.offset);
                } else {
                    complete |= 1 << lane;
                    m.check_barrier_passed(op, place, lane, barrier.parity, op.imm & RELAXED == 0);
                }
                continue;
            }
        };
        m.barrier_fault(op, (place, lane), rule);
    }
    m.asynchronous.complete = complete;
    m.waiting |= complete != mask;
    // SAFETY: passed on.
    unsafe { m.set_predicate(op.dst, complete, mask) };
}

/// `mbarrier.pending_count`: the pending count in a state.
struct PendingCount;
impl LaneOp for PendingCount {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operands.
        unsafe {
            let counts = m.read::<u64>(op.a).map(|state| Barrier::decode(state).map_or(0, |b| b.pending));
            m.write(op.dst, &counts, mask);
        }
    }
}

const SPACES: [&str; 3] = ["shared", "shared::cta", "shared::cluster"];

fn is_generic(inst: &Instruction) -> bool {
    !SPACES.iter().any(|space| inst.has(space))
}

/// Checks that a barrier's order and scope are both given, or both omitted.
fn check_order(d: &Decoder, inst: &Instruction) -> Result<(), Error> {
    let any = |names: &[&str]| names.iter().any(|name| inst.has(name));
    if any(&["release", "acquire", "relaxed"]) == any(&["cta", "cluster"]) {
        return Ok(());
    }
    Err(d.invalid(inst, "an order needs a scope, and a scope an order"))
}

/// Decodes `mbarrier`.
pub(crate) fn decode(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    let Some(name) = inst.modifiers.first() else { return Err(d.invalid(inst, "an operation is missing")) };
    if d.ty(inst, 0)? != T::B64 {
        return Err(d.invalid(inst, "an mbarrier is a .b64"));
    }
    match name.as_str() {
        "test_wait" | "try_wait" => decode_wait(d, inst),
        "pending_count" => {
            d.expect_modifiers(inst, &["pending_count"])?;
            d.expect_operands(inst, 2)?;
            let a = d.src(inst, 1, T::B64)?;
            let dst = d.dst(inst, 0, T::U32)?;
            d.push(Op { a, dst, ..Op::new(d.handler::<PendingCount>()) });
            Ok(())
        }
        "init" | "inval" => {
            d.expect_modifiers(inst, &["init", "inval", "shared", "shared::cta"])?;
            let inits = inst.has("init");
            d.expect_operands(inst, if inits { 2 } else { 1 })?;
            let a = shared_row(d, inst, 0, is_generic(inst))?;
            let b = if inits { d.src(inst, 1, T::U32)? } else { NONE };
            let imm = if inits { Action::Init } else { Action::Inval } as i64;
            d.push(Op { a, b, imm, ..Op::new(d.handler::<Act>()) });
            Ok(())
        }
        "expect_tx" | "complete_tx" => {
            d.require(inst, 90)?;
            let known = ["expect_tx", "complete_tx", "relaxed", "cta", "cluster"];
            d.expect_modifiers(inst, &[&known[..], &SPACES].concat())?;
            check_order(d, inst)?;
            d.expect_operands(inst, 2)?;
            let a = shared_row(d, inst, 0, is_generic(inst))?;
            let c = d.src(inst, 1, T::U32)?;
            let imm = if name == "expect_tx" { Action::Expect } else { Action::Complete } as i64;
            d.push(Op { a, c, imm, ..Op::new(d.handler::<Act>()) });
            Ok(())
        }
        "arrive" | "arrive_drop" => decode_arrive(d, inst),
        other => Err(d.invalid(inst, format!("there is no mbarrier.{other}"))),
    }
}

fn decode_arrive(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    let known = ["arrive", "arrive_drop", "expect_tx", "noComplete", "release", "relaxed", "cta", "cluster"];
    d.expect_modifiers(inst, &[&known[..], &SPACES].concat())?;
    let expects = inst.has("expect_tx");
    check_order(d, inst)?;
    if inst.has("noComplete") {
        let others = ["expect_tx", "relaxed", "cluster", "shared::cluster"];
        if let Some(other) = others.into_iter().find(|other| inst.has(other)) {
            return Err(d.invalid(inst, format!(".{other} does not go with .noComplete")));
        }
    }
    let count = inst.operands.len();
    let wanted = if expects || inst.has("noComplete") { 3..=3 } else { 2..=3 };
    if !wanted.contains(&count) {
        return Err(d.invalid(inst, format!("found {count} operands")));
    }
    if expects || inst.has("shared::cluster") || (count == 3 && !inst.has("noComplete")) {
        d.require(inst, 90)?;
    }
    let a = shared_row(d, inst, 1, is_generic(inst))?;
    let number = if count == 3 { d.src(inst, 2, T::U32)? } else { NONE };
    let (b, c) = if expects { (NONE, number) } else { (number, NONE) };
    let dst = match &inst.operands[0] {
        Operand::Sink => NONE,
        _ if inst.has("shared::cluster") => {
            return Err(d.invalid(inst, "a barrier in .shared::cluster gives no state: '_' is needed"));
        }
        _ => d.dst(inst, 0, T::B64)?,
    };
    let action = if inst.has("arrive_drop") { Action::ArriveDrop } else { Action::Arrive };
    let flag = |holds: bool, flag: i64| if holds { flag } else { 0 };
    let imm = action as i64
        | flag(expects, EXPECTS)
        | flag(inst.has("noComplete"), NO_COMPLETE)
        | flag(inst.has("relaxed"), RELAXED);
    d.push(Op { a, b, c, dst, imm, ..Op::new(d.handler::<Act>()) });
    Ok(())
}

fn decode_wait(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    let tries = inst.has("try_wait");
    let known = ["test_wait", "try_wait", "parity", "acquire", "relaxed", "cta", "cluster", "shared", "shared::cta"];
    d.expect_modifiers(inst, &known)?;
    check_order(d, inst)?;
    if tries {
        d.require(inst, 90)?;
    }
    let count = inst.operands.len();
    if count != 3 && !(tries && count == 4) {
        return Err(d.invalid(inst, format!("found {count} operands")));
    }
    let a = shared_row(d, inst, 1, is_generic(inst))?;
    let by_parity = inst.has("parity");
    let b = d.src(inst, 2, if by_parity { T::U32 } else { T::B64 })?;
    if count == 4 {
        // A time limit has no meaning on a machine without a clock.
        d.src(inst, 3, T::U32)?;
    }
    let operand = inst.operands[0].clone();
    let dst = d.predicate_destination(inst, &operand)?;
    let imm = i64::from(by_parity) | if inst.has("relaxed") { RELAXED } else { 0 };
    let op = Op { a, b, dst, imm, ..Op::new(d.handler::<Wait>()) };
    d.mbarrier_wait(inst, op)
}

/// Decodes `cp.async.mbarrier.arrive`.
pub(super) fn decode_copy_arrive(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    d.expect_modifiers(inst, &["async", "mbarrier", "arrive", "noinc", "shared", "shared::cta"])?;
    d.expect_operands(inst, 1)?;
    let a = shared_row(d, inst, 0, is_generic(inst))?;
    let imm = Action::CopyArrive as i64 | if inst.has("noinc") { NO_INCREMENT } else { 0 };
    d.push(Op { a, imm, ..Op::new(d.handler::<Act>()) });
    Ok(())
}
