//! Tracking of values that come from uninitialised bytes, in checked runs.
//!
//! A load of such bytes is no error: padding is copied with what it pads. The load marks the bits
//! of its registers as undefined, and from then on, in that warp, every instruction is followed
//! ([`follow`]): what moves undefined bits moves their marks, a store of moved bits leaves its
//! bytes unwritten, and what is a use of them is a finding at its first: an address, a branch or
//! guard, a store of what was computed from them, an atomic, an operand that leaves the warp.
//!
//! Which bits of a result are undefined is asked of the machine itself ([`sample`]): the
//! instruction runs again with other values in the undefined bits of its sources, and the bits of
//! the result that change are undefined. So an `and` with zero, a select that drops a lane, a
//! product of matrices, a shuffle and a vote are exact, and nothing is called undefined that is
//! not: what is said to depend on unwritten bytes was seen to.
//!
//! What a load has read of bytes that another thread writes, and nothing orders the two, is
//! followed in the same way: it is a race once the value is used, of which any store is one. Lanes
//! that load what they do nothing with, as copies of a tile smaller than its block do, are in no
//! race.
//!
//! What can be missed: a result that depends on undefined bits by none of the samples; whatever
//! goes through a `wgmma`, a bulk copy inside a cluster, an exchange whose lanes come from different instructions; bytes that
//! are undefined in part, once they are stored. Registers that were never written count as zero.

pub(crate) mod flow;
pub(crate) mod follow;
pub(crate) mod memory;
mod sample;

use std::collections::BTreeMap;

use crate::check::{Found, Rule, Side, Space};
use crate::exec::block::lanes_of;
use crate::exec::code::CallSlot;
use crate::exec::machine::Machine;
use crate::exec::row::LANES;

/// Location of a value in a warp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// A register, by the first of its rows among those of the warp.
    Register(u32),
    /// A predicate, by the first row of its frame and its number.
    Predicate(u32, u32),
    /// A word of local memory.
    Local(u32),
}

/// The load that undefined bits come from, and its uninitialised bytes.
#[derive(Debug, Clone, Copy)]
struct Origin {
    instruction: u32,
    lane: u32,
    space: Space,
    address: u64,
    /// The store of another thread, if the bytes are written but the two are unordered.
    raced: Option<Side>,
}

/// The undefined bits of one register, by lane.
#[derive(Debug, Clone)]
struct Mark {
    bits: [u128; LANES],
    /// Lanes whose value was computed, not just moved.
    computed: u32,
    /// Source of the undefined bits of each lane.
    origin: [Origin; LANES],
}

impl Mark {
    /// No undefined bits.
    fn none(origin: Origin) -> Self {
        Self { bits: [0; LANES], computed: 0, origin: [origin; LANES] }
    }

    /// The lanes whose value a store uses: computed ones, and those in a race.
    fn used_by_a_store(&self) -> u32 {
        let is_raced = |lane: &usize| self.bits[*lane] != 0 && self.origin[*lane].raced.is_some();
        (0..LANES).filter(is_raced).fold(self.computed, |all, lane| all | 1 << lane)
    }

    /// The lanes with undefined bits.
    fn lanes(&self) -> u32 {
        (0..LANES).filter(|&lane| self.bits[lane] != 0).fold(0, |all, lane| all | 1 << lane)
    }
}

/// Undefined values of a warp.
#[derive(Debug, Default)]
pub(crate) struct Undefined {
    /// Marks by the first row of a register.
    registers: Vec<Option<Box<Mark>>>,
    /// Number of marked registers.
    count: usize,
    /// Predicates and local memory.
    others: BTreeMap<Place, Box<Mark>>,
}

impl Undefined {
    fn is_empty(&self) -> bool {
        self.count == 0 && self.others.is_empty()
    }

    fn get(&self, place: Place) -> Option<&Mark> {
        match place {
            Place::Register(row) => self.registers.get(row as usize)?.as_deref(),
            other => self.others.get(&other).map(|mark| &**mark),
        }
    }

    fn get_mut(&mut self, place: Place) -> Option<&mut Mark> {
        match place {
            Place::Register(row) => self.registers.get_mut(row as usize)?.as_deref_mut(),
            other => self.others.get_mut(&other).map(|mark| &mut **mark),
        }
    }

    fn remove(&mut self, place: Place) {
        match place {
            Place::Register(row) => {
                let gone = self.registers.get_mut(row as usize).and_then(Option::take);
                self.count -= usize::from(gone.is_some());
            }
            other => {
                self.others.remove(&other);
            }
        }
    }

    /// Marks the value of `lanes` as defined.
    fn define(&mut self, place: Place, lanes: u32) {
        let Some(mark) = self.get_mut(place) else { return };
        lanes_of(lanes).for_each(|lane| mark.bits[lane as usize] = 0);
        mark.computed &= !lanes;
        if mark.lanes() == 0 {
            self.remove(place);
        }
    }

    /// Gives `lanes` the undefined bits of a mark.
    fn put(&mut self, place: Place, new: &Mark, lanes: u32) {
        if new.lanes() & lanes == 0 {
            return self.define(place, lanes);
        }
        if self.get(place).is_none() {
            let empty = Box::new(Mark::none(new.origin[0]));
            match place {
                Place::Register(row) => {
                    let needed = self.registers.len().max(row as usize + 1);
                    self.registers.resize_with(needed, || None);
                    self.registers[row as usize] = Some(empty);
                    self.count += 1;
                }
                other => {
                    self.others.insert(other, empty);
                }
            }
        }
        let Some(mark) = self.get_mut(place) else { return };
        for lane in lanes_of(lanes) {
            let at = lane as usize;
            (mark.bits[at], mark.origin[at]) = (new.bits[at], new.origin[at]);
        }
        mark.computed = mark.computed & !lanes | new.computed & lanes;
        if mark.lanes() == 0 {
            self.remove(place);
        }
    }

    /// Moves the marks of a lane's word between slots, for calls.
    pub(crate) fn move_word(&mut self, from: SlotOf, to: SlotOf, lane: u32, word: u32) {
        let (source, target) = (from.place(word), to.place(word));
        let found = self.get(source).filter(|mark| mark.bits[lane as usize] >> from.shift(word) & WORD != 0);
        let Some(old) = found.cloned() else {
            if let Some(mark) = self.get_mut(target) {
                mark.bits[lane as usize] &= !(WORD << to.shift(word));
                if mark.lanes() == 0 {
                    self.remove(target);
                }
            }
            return;
        };
        let bits = old.bits[lane as usize] >> from.shift(word) & WORD;
        let mut new = self.get(target).cloned().unwrap_or_else(|| Mark::none(old.origin[lane as usize]));
        let kept = new.bits[lane as usize] & !(WORD << to.shift(word));
        new.bits[lane as usize] = kept | bits << to.shift(word);
        new.origin[lane as usize] = old.origin[lane as usize];
        new.computed = new.computed & !(1 << lane) | old.computed & 1 << lane;
        self.put(target, &new, 1 << lane);
    }

    /// Marks a slot as defined in `lanes`.
    pub(crate) fn define_slot(&mut self, slot: SlotOf, lanes: u32) {
        self.define(slot.place(0), lanes);
    }

    /// Clears the marks of a new frame.
    pub(crate) fn begin_frame(&mut self, row: u32, local: u32) {
        for old in self.registers.iter_mut().skip(row as usize) {
            self.count -= usize::from(old.take().is_some());
        }
        self.others.retain(|place, _| match place {
            Place::Register(_) => false,
            Place::Predicate(frame, _) => *frame < row,
            Place::Local(word) => *word < local / 4,
        });
    }
}

/// All bits of a word.
const WORD: u128 = 0xffff_ffff;

/// A slot of a frame, for access by words.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SlotOf {
    slot: CallSlot,
    row: u32,
    local: u32,
}

impl SlotOf {
    /// Makes a slot of the frame that begins at a row and at a byte of local memory.
    pub(crate) fn new(slot: CallSlot, (row, local): (u32, u32)) -> Self {
        Self { slot, row, local }
    }

    fn place(self, word: u32) -> Place {
        match self.slot {
            CallSlot::Register { row, .. } => Place::Register(self.row + row),
            CallSlot::Predicate(p) => Place::Predicate(self.row, p),
            CallSlot::Local { offset, .. } => Place::Local((self.local + offset) / 4 + word),
        }
    }

    fn shift(self, word: u32) -> u32 {
        if matches!(self.slot, CallSlot::Register { .. }) { word * 32 } else { 0 }
    }
}

impl Machine {
    /// Undefined values of the current warp.
    fn undefined(&mut self) -> Option<&mut Undefined> {
        // SAFETY: the machine points at the current warp's, which nothing else refers to while a
        // part of it runs.
        unsafe { self.undefined.as_mut() }?.as_deref_mut()
    }

    /// Undefined values of the current warp, created if there are none yet.
    fn undefined_or_new(&mut self) -> Option<&mut Undefined> {
        self.is_followed = true;
        // SAFETY: as above.
        Some(unsafe { self.undefined.as_mut() }?.get_or_insert_default())
    }

    /// Stops tracking a warp without undefined values.
    fn forget_if_defined(&mut self) {
        if self.undefined().is_some_and(|undefined| undefined.is_empty()) {
            self.is_followed = false;
            // SAFETY: as above.
            if let Some(undefined) = unsafe { self.undefined.as_mut() } {
                *undefined = None;
            }
        }
    }

    fn place_of(&self, slot: CallSlot) -> Place {
        SlotOf::new(slot, (self.frame_base, self.local_base)).place(0)
    }

    fn mark(&mut self, slot: CallSlot) -> Option<&Mark> {
        let place = self.place_of(slot);
        self.undefined()?.get(place)
    }

    /// The lanes of a slot with undefined bits.
    fn undefined_lanes(&mut self, slot: CallSlot) -> u32 {
        self.mark(slot).map_or(0, Mark::lanes)
    }

    fn define(&mut self, slot: CallSlot, lanes: u32) {
        let place = self.place_of(slot);
        if let Some(undefined) = self.undefined() {
            undefined.define(place, lanes);
        }
    }

    fn put_mark(&mut self, slot: CallSlot, mark: &Mark, lanes: u32) {
        let place = self.place_of(slot);
        if let Some(undefined) = self.undefined_or_new() {
            undefined.put(place, mark, lanes);
        }
    }

    /// The values of all lanes.
    fn values(&self, slot: CallSlot) -> [u128; LANES] {
        // SAFETY: slots of the current function lie in its frame.
        unsafe {
            match slot {
                CallSlot::Register { row, rows: 0 | 1 } => self.read::<u32>(row).map(u128::from),
                CallSlot::Register { row, rows: 2 } => self.read::<u64>(row).map(u128::from),
                CallSlot::Register { row, .. } => self.read::<u128>(row),
                CallSlot::Predicate(p) => {
                    let holds = self.predicate(p);
                    std::array::from_fn(|lane| u128::from(holds >> lane & 1))
                }
                CallSlot::Local { .. } => [0; LANES],
            }
        }
    }

    /// Sets the values of all lanes.
    fn set_values(&mut self, slot: CallSlot, values: &[u128; LANES]) {
        let all = u32::MAX;
        // SAFETY: as above.
        unsafe {
            match slot {
                CallSlot::Register { row, rows: 0 | 1 } => self.write::<u32>(row, &values.map(|v| v as u32), all),
                CallSlot::Register { row, rows: 2 } => self.write::<u64>(row, &values.map(|v| v as u64), all),
                CallSlot::Register { row, .. } => self.write::<u128>(row, values, all),
                CallSlot::Predicate(p) => {
                    let holds = (0..LANES).fold(0, |all, lane| all | (values[lane] as u32 & 1) << lane);
                    self.set_predicate(p, holds, all);
                }
                CallSlot::Local { .. } => {}
            }
        }
    }

    /// Reports a use of undefined bits in a slot, which counts as defined from then on.
    fn report_use(&mut self, instruction: u32, rule_of_use: Rule, slot: CallSlot, lanes: u32) {
        let rule = rule_of_use;
        let Some(mark) = self.mark(slot) else { return };
        let used = mark.lanes() & lanes;
        if used == 0 {
            return;
        }
        let lane = used.trailing_zeros();
        let Origin { instruction: loaded_by, lane: loaded, space, address, raced } = mark.origin[lane as usize];
        // Other sources are reported in a finding after it.
        let source_of = |lane: u32| {
            let origin = &mark.origin[lane as usize];
            (origin.instruction, origin.raced.map(|store| store.instr))
        };
        let alike = lanes_of(used).filter(|&other| source_of(other) == source_of(lane));
        let used_alike = alike.fold(0u32, |all, lane| all | 1 << lane);
        let (block, warp) = (u32::try_from(self.block).unwrap_or(u32::MAX), self.warp);
        let user = Side { instr: instruction, block, warp, lane };
        let load = Side { instr: loaded_by, block, warp, lane: loaded };
        let (rule, this, other) = match raced {
            Some(store) => (Rule::ReadAfterWrite, load, store),
            None => (rule, user, load),
        };
        if let Some(checking) = &mut self.checking {
            let count = used_alike.count_ones().into();
            checking.findings.add(Found { rule, space, address, this, other: Some(other), count });
        }
        self.define(slot, used_alike);
        self.report_use(instruction, rule_of_use, slot, lanes);
    }
}

/// Rows of a register of some bytes.
fn rows_of(bytes: u32) -> u32 {
    bytes.div_ceil(4).next_power_of_two()
}
