//! Stack frames: a function's registers and local memory, and how calls move values between frames.

use super::block::{Context, lanes_of};
use super::code::{Call, CallSlot, CallTarget, Code, FunctionCode};
use super::machine::{Fault, Machine};
use super::memory_map::FUNCTION_WINDOW;
use super::row::{LANES, Row};
use super::special::{clear_undefined, fill_constants, fill_specials};
use super::warp::{Frame, Part, PartState, Return, Warp, depth};
use crate::report::{FindingKind, Severity};
use crate::undefined::SlotOf;

// THRESHOLD: a call that is nested deeper is a fault; tested by
// crates/sim/tests/first_kernel/limits.rs::calls_are_nested_as_deep_as_is_said
/// Maximum call depth.
const MAX_DEPTH: u32 = 1024;
// THRESHOLD: larger variables are refused, and a call that needs more is a fault; tested by
// crates/sim/tests/first_kernel/limits.rs::a_thread_has_as_much_local_memory_as_on_hardware
/// Maximum local memory of a thread, as on hardware.
pub(crate) const MAX_LOCAL_BYTES: u32 = 512 * 1024;

/// Points the machine at a frame.
pub(super) fn enter(m: &mut Machine, warp: &mut Warp, frame: Frame, function: &FunctionCode) {
    let rows = &mut warp.rows[frame.base as usize..][..function.rows as usize];
    let first = rows.as_mut_ptr();
    m.frame = first;
    m.frame_base = frame.base;
    m.undefined = &raw mut warp.undefined;
    m.is_followed = warp.undefined.is_some();
    m.predicates = first.wrapping_add(function.predicate_row as usize).cast();
    m.local = &raw mut warp.local;
    m.in_flight = &raw mut warp.in_flight;
    m.function = frame.function;
    m.local_base = frame.local;
    m.local_end = frame.local + function.local_bytes;
}

/// Outcome of starting a call.
pub(super) enum Called {
    /// The part is in the callee.
    Entered,
    /// The callee belongs to the device runtime and is still to be run.
    Runtime,
    /// A fault.
    Fault,
}

/// Starts a call by part `i`.
pub(super) fn call(
    warp: &mut Warp,
    i: usize,
    call: &Call,
    m: &mut Machine,
    cx: &Context<'_>,
    block: [u32; 3],
) -> Called {
    let ways = match ways(call, warp.parts[i].mask, m, cx.code) {
        Ok(ways) => ways,
        Err(called) => return called,
    };
    let caller = warp.parts[i].clone();
    if depth(&caller) >= MAX_DEPTH {
        let lane = caller.mask.trailing_zeros();
        return fault(m, call.instruction, lane, format!("calls are nested more than {MAX_DEPTH} deep"));
    }
    // Lanes that diverge inside the callee reconverge after the call.
    let join = warp.push_join(super::warp::Join {
        at: call.next,
        depth: depth(&caller),
        members: caller.mask,
        arrived: 0,
        parent: caller.join,
        frame: caller.frame,
        callers: caller.callers.clone(),
        free: false,
    });
    warp.parts.swap_remove(i);
    let (mut base, mut local) = room(warp, caller.frame, cx.code);
    for (lanes, callee) in ways {
        let function = &cx.code.functions[callee as usize];
        let frame = Frame { function: callee, base, local };
        base += function.rows;
        local = (local + function.local_bytes).next_multiple_of(16);
        if local > MAX_LOCAL_BYTES {
            return fault(m, call.instruction, lanes.trailing_zeros(), "the stack of a thread overflows".to_owned());
        }
        begin(warp, frame, m.warp, cx, block);
        for (from, to) in call.arguments.iter().zip(&function.params) {
            copy(warp, cx.code, (caller.frame, *from), (frame, *to), lanes);
        }
        let mut callers = caller.callers.clone();
        callers.push(Return { frame: caller.frame, call: caller.block });
        warp.parts.push(Part {
            mask: lanes,
            block: function.entry,
            at_terminator: false,
            retries: false,
            join: Some(join),
            frame,
            callers,
            state: PartState::Ready,
        });
    }
    Called::Entered
}

/// The functions that lanes call, each with its lanes.
fn ways(call: &Call, mask: u32, m: &mut Machine, code: &Code) -> Result<Vec<(u32, u32)>, Called> {
    let row = match call.target {
        CallTarget::Direct(function) => return Ok(vec![(mask, function)]),
        CallTarget::Indirect(row) => row,
        CallTarget::Vprintf | CallTarget::Malloc | CallTarget::Free | CallTarget::AssertFail => {
            return Err(Called::Runtime);
        }
    };
    // SAFETY: the decoder gave the function this row.
    let addresses = unsafe { m.read::<u64>(row) };
    let mut ways: Vec<(u32, u32)> = Vec::new();
    for lane in lanes_of(mask) {
        let address = addresses[lane as usize];
        let index = address.wrapping_sub(FUNCTION_WINDOW) / 16;
        let callee = u32::try_from(index).ok().filter(|&f| {
            (f as usize) < code.functions.len()
                && address.is_multiple_of(16)
                && code.functions[f as usize].params.len() == call.arguments.len()
        });
        let Some(callee) = callee else {
            let rule = format!("{address:#x} is not the address of a function with these parameters");
            return Err(fault(m, call.instruction, lane, rule));
        };
        match ways.iter_mut().find(|(_, f)| *f == callee) {
            Some((lanes, _)) => *lanes |= 1 << lane,
            None => ways.push((1 << lane, callee)),
        }
    }
    Ok(ways)
}

/// The first free row and the first free byte of local memory after all frames of a warp.
fn room(warp: &Warp, caller: Frame, code: &Code) -> (u32, u32) {
    let ends = warp.parts.iter().map(|part| part.frame).chain([caller]).map(|frame| {
        let function = &code.functions[frame.function as usize];
        (frame.base + function.rows, frame.local + function.local_bytes)
    });
    let (base, local) = ends.fold((0, 0), |most, end| (most.0.max(end.0), most.1.max(end.1)));
    (base, local.next_multiple_of(16))
}

/// Prepares a frame for a function.
fn begin(warp: &mut Warp, frame: Frame, w: u32, cx: &Context<'_>, block: [u32; 3]) {
    let function = &cx.code.functions[frame.function as usize];
    let base = (frame.base + function.rows) as usize;
    if warp.rows.len() < base {
        warp.rows.resize(base, Row([0; LANES]));
    }
    let local = (frame.local + function.local_bytes).next_multiple_of(16) as usize;
    if warp.local.len() * 4 < local {
        warp.local.resize(local / 4, Row([0; LANES]));
    }
    if let Some(undefined) = &mut warp.undefined {
        undefined.begin_frame(frame.base, frame.local);
    }
    fill_constants(&mut warp.rows, frame.base, function);
    fill_specials(&mut warp.rows, frame.base, function, cx.geometry, block, w, true);
    clear_undefined(&mut warp.rows, frame.base, function);
}

fn fault(m: &mut Machine, instruction: u32, lane: u32, rule: String) -> Called {
    let thread = m.thread(lane);
    let (block, kind) = (m.block, FindingKind::OutOfBounds);
    let fault = Fault { kind, severity: Severity::Error, instruction, block, thread, address: None, other: None, rule };
    m.fault(fault, true);
    Called::Fault
}

/// The caller's part after a return: its results are copied, and it continues after the call.
pub(super) fn return_from(warp: &mut Warp, mut part: Part, code: &Code) -> Part {
    let back = part.callers.pop().expect("the outermost return is an exit");
    let super::code::Terminator::Call(call) = &code.blocks[back.call as usize].terminator else {
        unreachable!("a caller's block ends in a call")
    };
    let function = &code.functions[part.frame.function as usize];
    for (from, to) in function.returns.iter().zip(&call.returns) {
        copy(warp, code, (part.frame, *from), (back.frame, *to), part.mask);
    }
    part.frame = back.frame;
    part.block = call.next;
    part
}

/// Copies a value between frames, for the lanes of `mask`.
fn copy(warp: &mut Warp, code: &Code, from: (Frame, CallSlot), to: (Frame, CallSlot), mask: u32) {
    for lane in lanes_of(mask) {
        let words = words_of(from.1).min(words_of(to.1));
        for word in 0..words {
            let value = get(warp, code, from.0, from.1, lane, word);
            put(warp, code, to.0, to.1, lane, word, value);
            if let Some(undefined) = &mut warp.undefined {
                let slot = |(frame, slot): (Frame, CallSlot)| SlotOf::new(slot, (frame.base, frame.local));
                undefined.move_word(slot(from), slot(to), lane, word);
            }
        }
    }
}

/// 32-bit words of a slot.
pub(crate) fn words_of(slot: CallSlot) -> u32 {
    match slot {
        CallSlot::Local { bytes, .. } => bytes.div_ceil(4),
        CallSlot::Register { rows, .. } => rows,
        CallSlot::Predicate(_) => 1,
    }
}

/// Row and column of word `word` of lane `lane` in a register of `rows` rows.
pub(super) fn position(row: u32, rows: u32, lane: u32, word: u32) -> (usize, usize) {
    let at = lane * rows + word;
    ((row + at / 32) as usize, (at % 32) as usize)
}

/// One word of a slot.
pub(crate) fn get(warp: &Warp, code: &Code, frame: Frame, slot: CallSlot, lane: u32, word: u32) -> u32 {
    match slot {
        CallSlot::Local { offset, .. } => warp.local[((frame.local + offset) / 4 + word) as usize].0[lane as usize],
        CallSlot::Register { row, rows } => {
            let (row, column) = position(frame.base + row, rows, lane, word);
            warp.rows[row].0[column]
        }
        CallSlot::Predicate(p) => {
            let start = frame.base + code.functions[frame.function as usize].predicate_row;
            warp.rows[(start + p / 32) as usize].0[p as usize % 32] >> lane & 1
        }
    }
}

/// Sets one word of a slot.
pub(crate) fn put(warp: &mut Warp, code: &Code, frame: Frame, slot: CallSlot, lane: u32, word: u32, value: u32) {
    match slot {
        CallSlot::Local { offset, .. } => {
            warp.local[((frame.local + offset) / 4 + word) as usize].0[lane as usize] = value;
        }
        CallSlot::Register { row, rows } => {
            let (row, column) = position(frame.base + row, rows, lane, word);
            warp.rows[row].0[column] = value;
        }
        CallSlot::Predicate(p) => {
            let start = frame.base + code.functions[frame.function as usize].predicate_row;
            let cell = &mut warp.rows[(start + p / 32) as usize].0[p as usize % 32];
            *cell = *cell & !(1 << lane) | (value & 1) << lane;
        }
    }
}
