//! Recorder of one warp's steps: after each instruction, what changed in its registers and in its
//! block's shared memory.
//!
//! Handlers know nothing of it: contents are compared before and after. So whatever changes a
//! register is seen, and an instruction that writes the value that was there changes nothing. What
//! an exchange or a barrier brings after a wait stands with the step that waited. An unconditional
//! `bra` leaves no operation, so it is no step. A bulk copy stores when it lands, and belongs to
//! the step that issued it; a `cp.async` stores where it is issued.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::code::{CallSlot, Class, Code, FunctionCode, Terminator};
use super::geometry::Geometry;
use super::harvest::warp_access;
use super::machine::Machine;
use super::memory_map::SHARED_WINDOW;
use super::op::NONE;
use super::part::run_followed;
use super::recording::Recorded;
use super::row::LANES;
use crate::asynchronous::transfers::{Load, Piece, Store, Thread};
use crate::report::{
    AskedSteps, LastWriter, MemorySpace, RecordedSteps, StepRegister, StepStore, WarpStep, WrittenRegister,
};

/// Stores of other warps that are kept for each step.
const STORES_A_STEP: usize = 8;

/// The recording of a worker.
#[derive(Debug)]
pub(crate) struct StepRecorder {
    asked: AskedSteps,
    /// Memory that each instruction stores to.
    stores: Vec<StoredTo>,
    registers: Vec<StepRegister>,
    /// Index of the first register of each function in `registers`.
    first: Vec<u32>,
    list: Vec<RawStep>,
    num_steps: u64,
    /// Contents of frames after the last step, by function and base.
    frames: BTreeMap<(u32, u32), Vec<u32>>,
    /// Contents of shared memory after the last step.
    shared: Vec<u32>,
    /// Words that were stored before the first step.
    earlier: Vec<(u32, u32)>,
    /// Accesses of the step that runs.
    accesses: Vec<Recorded>,
    others: Vec<OtherStore>,
    writers: BTreeMap<u64, LastWriter>,
}

/// Memory that an instruction stores to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StoredTo {
    Nothing,
    SharedMemory,
    AnyMemory,
}

/// A store to shared memory by another warp or by a bulk copy: steps before it, instruction, the
/// block and warp, the step that issued it.
#[derive(Debug)]
struct OtherStore {
    before: u32,
    instruction: u32,
    place: (u64, u32),
    step: Option<u32>,
    access: Recorded,
}

#[derive(Debug)]
struct RawStep {
    instruction: u32,
    masks: [u32; 2],
    is_open: bool,
    written: Vec<WrittenRegister>,
    accesses: Vec<Recorded>,
    shared: Vec<(u32, u32)>,
}

impl StepRecorder {
    pub(super) fn new(asked: &AskedSteps, code: &Code) -> Self {
        let (mut registers, mut first) = (Vec::new(), Vec::new());
        for function in &code.functions {
            first.push(u32::try_from(registers.len()).expect("few registers"));
            let named = function.named.iter();
            registers.extend(named.map(|r| StepRegister { name: r.name.to_string(), ty: r.ty.to_string() }));
        }
        Self {
            asked: asked.clone(),
            stores: code.instructions.iter().map(|i| stored_to(i.class)).collect(),
            registers,
            first,
            list: Vec::new(),
            num_steps: 0,
            frames: BTreeMap::new(),
            shared: Vec::new(),
            earlier: Vec::new(),
            accesses: Vec::new(),
            others: Vec::new(),
            writers: BTreeMap::new(),
        }
    }

    /// Notes an access of any warp: `place` is its block and its number there.
    pub(super) fn note(&mut self, instruction: u32, place: (u64, u32), access: &Recorded, space: MemorySpace) {
        let (block, warp) = place;
        let is_block = block == self.asked.block;
        let is_watched = is_block && warp == self.asked.warp;
        if is_watched && self.has_room() {
            self.accesses.push(*access);
        }
        match (space, self.stores[instruction as usize]) {
            (MemorySpace::Shared, StoredTo::SharedMemory | StoredTo::AnyMemory) => {
                if is_block && !is_watched {
                    self.other_store(instruction, place, None, *access);
                }
            }
            (MemorySpace::Global, StoredTo::AnyMemory) => {
                let step = self.step_of(place);
                for lane in (0..LANES).filter(|lane| access.mask >> lane & 1 != 0) {
                    let by = Thread { block, warp, lane: lane as u32 };
                    self.global_store(instruction, by, step, (access.at[lane], access.bytes), None);
                }
            }
            (MemorySpace::Shared, StoredTo::Nothing)
            | (MemorySpace::Global, StoredTo::Nothing | StoredTo::SharedMemory) => {}
        }
    }

    /// The number of the step that runs, if this warp is the watched one.
    fn step_of(&self, place: (u64, u32)) -> Option<u32> {
        let is_watched = place == (self.asked.block, self.asked.warp);
        (is_watched && self.has_room()).then(|| self.num_kept())
    }

    fn num_kept(&self) -> u32 {
        u32::try_from(self.list.len()).expect("few steps")
    }

    fn other_store(&mut self, instruction: u32, place: (u64, u32), step: Option<u32>, access: Recorded) {
        if self.others.len() < STORES_A_STEP * self.asked.most {
            self.others.push(OtherStore { before: self.num_kept(), instruction, place, step, access });
        }
    }

    /// Notes a store to a range of global memory, `from` the offset in shared memory of a copy.
    fn global_store(
        &mut self,
        instruction: u32,
        by: Thread,
        step: Option<u32>,
        (start, bytes): (u64, u32),
        from: Option<u32>,
    ) {
        let Thread { block, warp, lane } = by;
        for range in &self.asked.watched {
            for address in start.max(range.start)..(start + u64::from(bytes)).min(range.end) {
                let from = from.map(|from| from + (address - start) as u32);
                self.writers.insert(address, LastWriter { address, block, warp, lane, line: instruction, step, from });
            }
        }
    }

    fn has_room(&self) -> bool {
        self.list.len() < self.asked.most
    }

    /// Takes shared memory as it is before the first step. Of what it holds only what the block's
    /// other warps have stored is of this block.
    fn begin(&mut self, shared: &[u32]) {
        self.shared = shared.to_vec();
        let stored = self.others.iter().flat_map(|OtherStore { access, .. }| {
            let lanes = (0..LANES).filter(|lane| access.mask >> lane & 1 != 0);
            lanes.flat_map(|lane| {
                let first = (access.at[lane] - SHARED_WINDOW) / 4;
                first..first + u64::from(access.bytes).div_ceil(4)
            })
        });
        let words: BTreeSet<u64> = stored.collect();
        let value = |word: u64| Some((u32::try_from(word).ok()?, *shared.get(usize::try_from(word).ok()?)?));
        self.earlier = words.into_iter().filter_map(value).collect();
    }

    /// Compares contents with those after the last step: registers and words that changed.
    fn changes(&mut self, function: &FunctionCode, frame: (u32, u32), rows: &[u32], shared: &[u32]) -> StepChanges {
        let first = self.first[frame.0 as usize];
        let lanes = |rows: &[u32], slot: CallSlot| -> [u128; LANES] {
            match slot {
                // Rows hold the lanes one after the other, whatever their width.
                CallSlot::Register { row, rows: num } => std::array::from_fn(|lane| {
                    let at = row as usize * LANES + lane * num as usize;
                    rows[at..at + num as usize].iter().rev().fold(0, |bits, word| bits << 32 | u128::from(*word))
                }),
                CallSlot::Predicate(at) => {
                    let lanes = rows[function.predicate_row as usize * LANES + at as usize];
                    std::array::from_fn(|lane| u128::from(lanes >> lane & 1))
                }
                CallSlot::Local { .. } => [0; LANES],
            }
        };
        let mut written = Vec::new();
        // All that a new frame holds are arguments.
        let before = self.frames.entry(frame).or_insert_with(|| vec![0; rows.len()]);
        let named = if before != rows { &function.named[..] } else { &[] };
        for (register, named) in (first..).zip(named) {
            let values = lanes(rows, named.slot);
            if values != lanes(before, named.slot) {
                written.push(WrittenRegister { register, values });
            }
        }
        before.copy_from_slice(rows);
        let mut words = Vec::new();
        if self.shared != shared {
            let differ = self.shared.iter().zip(shared).enumerate().filter(|(_, (was, is))| was != is);
            words.extend(differ.map(|(at, (_, is))| (at as u32, *is)));
            self.shared.copy_from_slice(shared);
        }
        StepChanges { written, words }
    }

    /// The report of the steps.
    pub(super) fn into_steps(
        self,
        code: &Code,
        geometry: &Geometry,
        describe: &impl Fn(u64) -> String,
    ) -> RecordedSteps {
        let AskedSteps { block, warp, .. } = self.asked;
        let blocks = geometry.grid.iter().map(|&n| u64::from(n)).product::<u64>();
        let coordinates = |block: u64| Geometry::coordinates(block.min(blocks.saturating_sub(1)), geometry.grid);
        let block = coordinates(block);
        let step = |raw: RawStep| {
            let info = &code.instructions[raw.instruction as usize];
            let [mask, active] = raw.masks;
            WarpStep {
                line: info.line,
                text: info.text.clone(),
                source: info.source.clone(),
                mask,
                active,
                is_open: raw.is_open,
                written: raw.written,
                accesses: raw.accesses.iter().map(|access| warp_access(access, block, warp, describe)).collect(),
                shared: raw.shared,
            }
        };
        let line = |instruction: u32| code.instructions[instruction as usize].line;
        let store = |store: &OtherStore| StepStore {
            before: store.before,
            line: line(store.instruction),
            access: warp_access(&store.access, coordinates(store.place.0), store.place.1, describe),
            step: store.step,
        };
        RecordedSteps {
            block,
            warp,
            stores: self.others.iter().map(store).collect(),
            list: self.list.into_iter().map(step).collect(),
            num_steps: self.num_steps,
            registers: self.registers,
            writers: self.writers.into_values().map(|w| LastWriter { line: line(w.line), ..w }).collect(),
        }
    }
}

struct StepChanges {
    written: Vec<WrittenRegister>,
    words: Vec<(u32, u32)>,
}

impl Machine {
    /// Returns true if the current warp is the one whose steps are recorded.
    #[inline(always)]
    pub(super) fn is_stepped(&self) -> bool {
        let steps = self.recording.as_ref().and_then(|recording| recording.steps.as_ref());
        steps.is_some_and(|steps| (steps.asked.block, steps.asked.warp) == (self.block, self.warp))
    }

    /// The number of the step that runs, if the current warp's are recorded: copies carry it.
    pub(crate) fn step(&self) -> Option<u32> {
        self.recording.as_ref()?.steps.as_ref()?.step_of((self.block, self.warp))
    }

    /// Notes that a bulk copy lands in the current block's shared memory.
    pub(crate) fn step_load(&mut self, load: &Load) {
        let block = self.block;
        let steps = self.recording.as_mut().and_then(|recording| recording.steps.as_mut());
        let Some(steps) = steps.filter(|steps| steps.asked.block == block) else { return };
        let Thread { block, warp, lane } = load.by;
        let at = std::array::from_fn(|_| SHARED_WINDOW + u64::from(load.to));
        let access = Recorded { bytes: load.bytes, mask: 1 << lane, at };
        steps.other_store(load.instruction, (block, warp), load.step, access);
    }

    /// Notes that a bulk copy writes a piece of global memory.
    pub(crate) fn step_store(&mut self, store: &Store, piece: &Piece) {
        let steps = self.recording.as_mut().and_then(|recording| recording.steps.as_mut());
        if let (Some(steps), Some(address)) = (steps, piece.global) {
            let stored = (address, piece.bytes);
            steps.global_store(store.instruction, store.by, store.step, stored, Some(piece.shared));
        }
    }
}

/// Memory that instructions of a class store to. Bulk copies have a class of stores or loads, and
/// their accesses are noted when they land.
fn stored_to(class: Class) -> StoredTo {
    match class {
        Class::Store | Class::Atomic => StoredTo::AnyMemory,
        Class::Copy => StoredTo::SharedMemory,
        _ => StoredTo::Nothing,
    }
}

/// Compares with what the last step left, and keeps the difference with that step or a new one.
fn compare(m: &mut Machine, code: &Code, step: Option<(u32, [u32; 2], bool)>) {
    let function = &code.functions[m.function as usize];
    let frame = (m.function, m.frame_base);
    // SAFETY: the machine points at a frame of this function, which has as many rows, and at the
    // shared memory of the block, whose storage is rows; nothing else refers to them meanwhile.
    let (rows, shared) = unsafe {
        (
            std::slice::from_raw_parts_mut(m.frame.cast::<u32>(), function.rows as usize * LANES),
            std::slice::from_raw_parts(m.shared.cast::<u32>(), m.shared_bytes as usize / 4),
        )
    };
    let Some(steps) = m.recording.as_mut().and_then(|recording| recording.steps.as_mut()) else { return };
    if step.is_some() {
        steps.num_steps += 1;
    }
    if !steps.has_room() {
        steps.accesses.clear();
        return;
    }
    if !steps.frames.contains_key(&frame) {
        clear(rows, function);
    }
    if steps.shared.is_empty() {
        steps.begin(shared);
    }
    let StepChanges { written, words } = steps.changes(function, frame, rows, shared);
    match step {
        Some((instruction, masks, is_open)) => {
            let accesses = std::mem::take(&mut steps.accesses);
            let shared = [std::mem::take(&mut steps.earlier), words].concat();
            steps.list.push(RawStep { instruction, masks, is_open, written, accesses, shared });
        }
        None => {
            let Some(last) = steps.list.last_mut() else { return };
            // Registers that a wait brought: a later value of one takes the place of an earlier.
            last.written.retain(|old| written.iter().all(|new| new.register != old.register));
            last.written.extend(written);
            last.shared.extend(words);
        }
    }
}

/// Clears what earlier warps left in the registers of a frame, so that each write shows. A register
/// that may be read before it is written is cleared in any run; arguments stay.
fn clear(rows: &mut [u32], function: &FunctionCode) {
    for named in function.named.iter().filter(|named| !function.params.contains(&named.slot)) {
        match named.slot {
            CallSlot::Register { row, rows: num } => {
                rows[row as usize * LANES..(row + num) as usize * LANES].fill(0);
            }
            CallSlot::Predicate(at) => rows[function.predicate_row as usize * LANES + at as usize] = 0,
            CallSlot::Local { .. } => {}
        }
    }
}

/// Runs straight-line operations, instruction by instruction.
pub(super) fn run(m: &mut Machine, code: &Code, ops: Range<u32>, mask: u32) {
    compare(m, code, None);
    let mut at = ops.start;
    while at < ops.end && !m.stop {
        let op = &code.ops[at as usize];
        let instruction = op.instruction;
        let of_it = |next: &u32| *next < ops.end && code.ops[*next as usize].instruction == instruction;
        let end = (at..).skip(1).find(|next| !of_it(next)).expect("a block ends");
        let active = match op.guard {
            NONE => mask,
            guard => mask & lanes_of(m, guard, op.guard_negated),
        };
        run_followed(m, code, at, end, mask);
        compare(m, code, Some((instruction, [mask, active], false)));
        at = end;
    }
}

/// Prepares the step of a terminator: the lanes that take it, if it is a branch.
pub(super) fn begin(m: &mut Machine, code: &Code, terminator: &Terminator, mask: u32) -> u32 {
    compare(m, code, None);
    match terminator {
        Terminator::Branch { predicate, negated, .. } => mask & lanes_of(m, *predicate, *negated),
        _ => mask,
    }
}

/// Keeps the step of a terminator that is an instruction.
pub(super) fn end(m: &mut Machine, code: &Code, terminator: &Terminator, masks: (u32, u32), goes_on: bool) {
    let instruction = match terminator {
        Terminator::Branch { instruction, .. } => *instruction,
        Terminator::Switch { instruction, .. }
        | Terminator::Trap { instruction }
        | Terminator::WarpSync { instruction, .. }
        | Terminator::MbarrierWait { instruction, .. } => Some(*instruction),
        Terminator::Call(call) => Some(call.instruction),
        Terminator::Barrier(barrier) => Some(barrier.instruction),
        Terminator::ClusterBarrier(barrier) => Some(barrier.instruction),
        Terminator::SetRegisters(set) => Some(set.instruction),
        Terminator::Jump(_) | Terminator::Return | Terminator::Exit => None,
    };
    let Some(instruction) = instruction else { return };
    let masks = [masks.0, masks.1];
    if goes_on {
        return compare(m, code, Some((instruction, masks, false)));
    }
    // The frame may have moved: what it holds is compared when the warp goes on.
    let Some(steps) = m.recording.as_mut().and_then(|recording| recording.steps.as_mut()) else { return };
    steps.num_steps += 1;
    let accesses = std::mem::take(&mut steps.accesses);
    if steps.has_room() {
        let (written, shared) = (Vec::new(), Vec::new());
        steps.list.push(RawStep { instruction, masks, is_open: true, written, accesses, shared });
    }
}

/// The lanes in which a predicate has a value.
fn lanes_of(m: &Machine, predicate: u32, is_negated: bool) -> u32 {
    // SAFETY: the decoder gave the function this predicate.
    let lanes = unsafe { m.predicate(predicate) };
    if is_negated { !lanes } else { lanes }
}
