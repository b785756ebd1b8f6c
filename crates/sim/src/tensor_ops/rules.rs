//! Rules that checked runs apply to `wgmma` (PTX ISA, "wgmma.mma_async", "wgmma.fence",
//! "wgmma.wait_group").
//!
//! - A register of A is not touched between its `mma_async` and the wait that covers it; nor is an
//!   accumulator, which is a warning, as ptxas injects a wait.
//! - A `wgmma.fence` lies between an ordinary access of such a register and the next `mma_async`
//!   that uses it, before the first `mma_async`, and between two of different shapes on one
//!   accumulator.
//! - The four warps of a warpgroup execute the same sequence of `wgmma` instructions, with the same
//!   descriptors.
//! - A descriptor has no bits outside its fields, and is the same in all lanes.
//! - Operands in shared memory lie inside variables.
//! - Nobody writes what a product in flight reads of shared memory, and ordinary stores there lie
//!   before a proxy fence.
//! - Nothing is in flight when a warp exits.
//!
//! All four warps read all of B; to the checker each answers for a quarter, so that a mistake of
//! one warp is found where it shows there.
//!
//! Accesses are told apart by register and warp, not by lane: an access of some lanes counts as one
//! of all. An ordinary read before an `mma_async` without a fence between is a warning, as
//! registers are renamed by no hardware that is known.
//!
//! What can be missed: registers passed to a function by value, and those that a function accesses
//! on behalf of its caller (a call waits for everything in flight); a `wgmma.fence` that one of the
//! four warps leaves out and another adds; bits of a descriptor that the layout makes no use of.

use std::collections::{HashMap, HashSet, VecDeque};

use warpfold_ptx::{Instruction, Major, Name, Opcode, Operand, Statement};

use super::queue::Issued;
use super::wgmma::{Kind, Tile};
use crate::decode::{Decoder, Symbol};
use crate::exec::machine::{Fault, Machine};
use crate::exec::memory_map::SHARED_WINDOW;
use crate::exec::op::{LaneOp, NONE, Op};
use crate::report::{FindingKind, Severity};

/// Bits of a descriptor outside all fields.
const UNUSED: u64 = !(0x3fff | 0x3fff << 16 | 0x3fff << 32 | 7 << 49 | 3 << 62);

/// Accesses of a warp to the registers of its products.
#[derive(Debug, Default)]
pub(crate) struct Registers {
    /// Last ordinary access per row since the last fence, and true if it writes.
    touched: HashMap<u32, (u32, bool)>,
    /// The products issued since the last fence.
    since_fence: Vec<u32>,
    /// True after the first fence.
    fenced: bool,
}

impl Registers {
    /// Clears the state for a new warp.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    fn fence(&mut self) {
        self.touched.clear();
        self.since_fence.clear();
        self.fenced = true;
    }
}

/// One `wgmma` instruction of a warp: its index, and its descriptors.
type Step = (u32, u64, u64);

/// The instructions of the four warps of a warpgroup that not all of them have executed yet.
#[derive(Debug, Default)]
pub(crate) struct Warpgroup {
    steps: VecDeque<Step>,
    /// Number of steps dropped at the front.
    dropped: u64,
    /// Steps of each warp.
    counts: [u64; 4],
    /// The last step of each warp.
    last: [u32; 4],
    exited: [bool; 4],
}

impl Warpgroup {
    /// Notes a step of a warp; returns the instruction that another warp executed instead, if it
    /// differs.
    fn step(&mut self, warp: usize, step: Step) -> Option<Step> {
        let at = usize::try_from(self.counts[warp] - self.dropped).expect("few steps");
        let other = self.steps.get(at).copied();
        if other.is_none() {
            self.steps.push_back(step);
        }
        self.counts[warp] += 1;
        self.last[warp] = step.0;
        let all = self.counts.into_iter().min().unwrap_or(0);
        while self.dropped < all && self.steps.pop_front().is_some() {
            self.dropped += 1;
        }
        other.filter(|other| *other != step)
    }

    /// Notes the exit of a warp; once all have exited, returns the instruction that it did not
    /// execute although another warp did.
    fn exit(&mut self, warp: usize) -> Option<(u32, usize)> {
        self.exited[warp] = true;
        if self.exited != [true; 4] {
            return None;
        }
        let most = (0..4).max_by_key(|&w| self.counts[w])?;
        let least = (0..4).min_by_key(|&w| self.counts[w])?;
        (self.counts[most] != self.counts[least]).then_some((self.last[most], least))
    }
}

/// The warpgroups of a block.
#[derive(Debug, Default)]
pub(crate) struct Warpgroups(Vec<Warpgroup>);

impl Warpgroups {
    /// Starts a block of `warps` warps.
    pub(crate) fn begin(&mut self, warps: usize) {
        self.0.clear();
        self.0.resize_with(warps / 4, Warpgroup::default);
    }
}

fn broken(m: &mut Machine, op: &Op, kind: FindingKind, severity: Severity, other: Option<u32>, rule: String) {
    let (block, thread) = (m.block, m.thread(0));
    let other = other.map(|instruction| (instruction, block, thread));
    let instruction = op.instruction;
    m.fault(Fault { kind, severity, instruction, block, thread, address: None, other, rule }, false);
}

/// Checks that the warpgroup executes this instruction together.
fn step(m: &mut Machine, op: &Op, a: u64, b: u64) {
    let warp = m.warp as usize;
    let Some(group) = m.warpgroups.0.get_mut(warp / 4) else {
        let rule = "a wgmma instruction of a warp whose warpgroup does not have four warps".to_owned();
        return broken(m, op, FindingKind::InvalidSync, Severity::Error, None, rule);
    };
    if let Some((other, ..)) = group.step(warp % 4, (op.instruction, a, b)) {
        let rule = if other == op.instruction {
            "the warps of a warpgroup execute this with different descriptors"
        } else {
            "the warps of a warpgroup do not execute the same wgmma instructions"
        };
        broken(m, op, FindingKind::InvalidSync, Severity::Error, Some(other), rule.to_owned());
    }
}

/// The 16-byte units of shared memory that the current warp is responsible for: its rows of A, and
/// every fourth eight columns of B.
fn units(m: &Machine, tile: &Tile, issued: &Issued) -> Vec<u32> {
    let last = m.shared_bytes.saturating_sub(16);
    let quarter = m.warp % 4;
    let mut units = Vec::new();
    for (n, (layout, first, count)) in tile.operands(m, issued).enumerate() {
        let is_b = n == usize::from(tile.a.is_none());
        for row in first[0]..first[0] + count[0] {
            for unit in first[1]..first[1] + count[1] {
                let eight = if layout.major() == Major::K { row / 8 } else { unit };
                let at = layout.unit(row, unit);
                if (!is_b || eight % 4 == quarter) && at <= last {
                    units.push(at);
                }
            }
        }
    }
    units
}

/// Checks that a product may start reading shared memory.
pub(super) fn check_operands_begin(m: &mut Machine, issued: &Issued) {
    let tables = std::sync::Arc::clone(&m.tensor);
    let units = units(m, &tables.wgmma[issued.tile as usize], issued);
    let holds = |unit: u32| m.shared_map.iter().any(|p| p.offset <= unit && unit + 16 <= p.offset + p.bytes);
    if let Some(&outside) = units.iter().find(|unit| !holds(**unit)) {
        let place = (SHARED_WINDOW + u64::from(outside), m.describe_shared(outside.into()));
        let (block, thread, instruction) = (m.block, m.thread(0), issued.instruction);
        let (kind, severity, address, other) = (FindingKind::OutOfBounds, Severity::Error, Some(place), None);
        let rule = "a matrix descriptor that leads outside every shared variable".to_owned();
        m.fault(Fault { kind, severity, instruction, block, thread, address, other, rule }, false);
        return;
    }
    m.check_operands_begin(issued.instruction, &units);
}

/// Notes that a product has read shared memory, as its warp knows.
pub(super) fn check_operands_read(m: &mut Machine, tile: &Tile, issued: &Issued) {
    let units = units(m, tile, issued);
    m.check_operands_read(issued.instruction, &units);
}

/// Checks `commit_group` and `wait_group`.
pub(super) fn check_step(m: &mut Machine, op: &Op) {
    step(m, op, 0, 0);
}

/// `wgmma.fence` of a checked run.
pub(super) struct Fence;
impl LaneOp for Fence {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        super::expect_whole_warp(m, op, mask);
        step(m, op, 0, 0);
        // SAFETY: the queue is the warp's.
        unsafe { (*m.in_flight).registers.fence() };
    }
}

/// Checks a product that is about to be issued.
///
/// # Safety
/// As for a handler; `op` is an `mma_async`.
pub(super) unsafe fn check_issue(m: &mut Machine, op: &Op, issued: &Issued) {
    step(m, op, issued.a, issued.b);
    for row in [op.a, op.b] {
        if row == NONE {
            continue;
        }
        // SAFETY: passed on.
        let lanes = unsafe { m.read::<u64>(row) };
        if lanes.iter().any(|d| *d != lanes[0]) {
            let rule = "the lanes of a warp give different matrix descriptors".to_owned();
            broken(m, op, FindingKind::InvalidSync, Severity::Error, None, rule);
        }
        if lanes[0] & UNUSED != 0 {
            let rule = format!("the matrix descriptor {:#018x} has bits outside its fields", lanes[0]);
            broken(m, op, FindingKind::Misaligned, Severity::Error, None, rule);
        }
    }
    let tables = std::sync::Arc::clone(&m.tensor);
    let tile = &tables.wgmma[issued.tile as usize];
    // SAFETY: the queue is the warp's, and nothing else refers to it.
    let queue = unsafe { &mut *m.in_flight };
    let a = tile.a.as_ref().map_or(&[][..], |a| &a[..]);
    // Products in flight may share accumulators, but not an accumulator and a register of A.
    let meets = |other: &Tile| {
        let other_a = other.a.as_ref().map_or(&[][..], |a| &a[..]);
        a.iter().any(|row| other.d.contains(row)) || tile.d.iter().any(|row| other_a.contains(row))
    };
    let early = queue.products().find(|p| meets(&tables.wgmma[p.tile as usize])).map(|p| p.instruction);
    let fenced = queue.registers.fenced;
    let touched = |row: &u32| queue.registers.touched.get(row).copied();
    // A product that does not add to the accumulators does not use them.
    let sums = if issued.adds { &tile.d[..] } else { &[] };
    let touches: Vec<(u32, bool)> = a.iter().chain(sums).filter_map(touched).collect();
    let touch = touches.iter().find(|(_, writes)| *writes).or(touches.first()).copied();
    let is_other_shape = |other: &Tile| {
        let size = |kind: Kind| match kind {
            Kind::Numbers { types, .. } => types[0].bits(),
            Kind::Bits => 1,
        };
        (other.n, size(other.kind)) != (tile.n, size(tile.kind)) && other.d.iter().any(|row| tile.d.contains(row))
    };
    let other_shape = queue.registers.since_fence.iter().any(|t| is_other_shape(&tables.wgmma[*t as usize]));
    if !queue.registers.since_fence.contains(&issued.tile) {
        queue.registers.since_fence.push(issued.tile);
    }
    let error = Severity::Error;
    if early.is_some() {
        let rule = "a register of A is an accumulator of a product in flight, or the other way round".to_owned();
        broken(m, op, FindingKind::MissingWait, error, early, rule);
    }
    if !fenced {
        let rule = "no wgmma.fence before the first wgmma.mma_async of a warp".to_owned();
        broken(m, op, FindingKind::InvalidSync, error, None, rule);
    } else if let Some((other, writes)) = touch {
        let (verb, severity) = if writes { ("writes", error) } else { ("reads", Severity::Warning) };
        let rule = format!("no wgmma.fence since an instruction {verb} a register of this product");
        broken(m, op, FindingKind::InvalidSync, severity, Some(other), rule);
    } else if other_shape {
        let rule = "no wgmma.fence since a product of another shape on the same accumulators".to_owned();
        broken(m, op, FindingKind::InvalidSync, error, None, rule);
    }
}

/// An ordinary access to a register of products: `a` is its row, `imm` is true for a write.
struct Touch;
impl LaneOp for Touch {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, _: u32) {
        touch(m, op);
    }
}

fn touch(m: &mut Machine, op: &Op) {
    // SAFETY: the queue is the warp's, and nothing else refers to it.
    let queue = unsafe { &mut *m.in_flight };
    if !m.checked && queue.is_empty() {
        return;
    }
    let tables = std::sync::Arc::clone(&m.tensor);
    let touched = queue.registers.touched.entry(op.a).or_insert((op.instruction, false));
    if op.imm != 0 && !touched.1 {
        *touched = (op.instruction, true);
    }
    let tile = |p: &Issued| &tables.wgmma[p.tile as usize];
    let has_sum = |p: &Issued| tile(p).d.contains(&op.a);
    let of_a = queue.products().find(|p| tile(p).a.is_some_and(|a| a.contains(&op.a))).map(|p| p.instruction);
    let of_sum = queue.products().find(|p| has_sum(p)).map(|p| p.instruction);
    let early = "before the wgmma.wait_group that covers it";
    if let (true, Some(other)) = (m.checked, of_a) {
        let rule = format!("a register of A of a wgmma.mma_async is touched {early}");
        broken(m, op, FindingKind::MissingWait, Severity::Error, Some(other), rule);
    } else if let (true, Some(other)) = (m.checked, of_sum) {
        let does = match op.imm {
            0 => "is read {early}: ptxas injects a wait (C7517)",
            _ => "is written {early}: ptxas serialises the products (C7515)",
        };
        let rule = format!("an accumulator of a wgmma.mma_async {}", does.replace("{early}", early));
        broken(m, op, FindingKind::MissingWait, Severity::Warning, Some(other), rule);
    }
    if of_sum.is_some() {
        super::queue::finish_up_to(m, has_sum);
    }
}

/// Checks the exit of the current warp.
pub(crate) fn check_exit(m: &mut Machine) {
    // SAFETY: the queue is the warp's, and nothing else refers to it.
    let queue = unsafe { &*m.in_flight };
    let left: Vec<(u32, bool)> = queue.products_by_group().map(|(p, committed)| (p.instruction, committed)).collect();
    for (instruction, committed) in left {
        let rule = if committed {
            "the warp exits without a wgmma.wait_group for this product's group"
        } else {
            "the warp exits without a wgmma.commit_group and a wait for this product"
        };
        let op = Op { instruction, ..Op::new(crate::tensor_ops::nothing) };
        broken(m, &op, FindingKind::MissingWait, Severity::Warning, None, rule.to_owned());
    }
    let warp = m.warp as usize;
    let missing = m.warpgroups.0.get_mut(warp / 4).and_then(|group| group.exit(warp % 4));
    if let Some((instruction, least)) = missing {
        let rule = format!("warp {least} of the warpgroup executes fewer wgmma instructions than the others");
        let op = Op { instruction, ..Op::new(crate::tensor_ops::nothing) };
        broken(m, &op, FindingKind::InvalidSync, Severity::Error, None, rule);
    }
}

/// The names of the registers that a function's products use.
pub(crate) fn registers_of_products(body: &[Statement]) -> HashSet<Name> {
    let mut names = HashSet::new();
    collect(body, &mut names);
    names
}

fn collect(body: &[Statement], names: &mut HashSet<Name>) {
    for statement in body {
        match statement {
            Statement::Instruction(inst) if inst.opcode == Opcode::Wgmma => {
                for operand in inst.operands.iter().take(2).filter(|operand| matches!(operand, Operand::Vector(_))) {
                    each_name(operand, &mut |name| {
                        names.insert(name.clone());
                    });
                }
            }
            Statement::Scope(inner) => collect(inner, names),
            _ => {}
        }
    }
}

fn each_name(operand: &Operand, call: &mut impl FnMut(&Name)) {
    match operand {
        Operand::Name { name, .. } | Operand::Selected { name, .. } => call(name),
        Operand::Address(address) => {
            if let warpfold_ptx::AddressBase::Name(name) = &address.base {
                call(name);
            }
            address.coordinates.iter().for_each(|operand| each_name(operand, call));
        }
        Operand::Vector(all) | Operand::List(all) => all.iter().for_each(|operand| each_name(operand, call)),
        Operand::Pair(first, second) => [first, second].into_iter().for_each(|operand| each_name(operand, call)),
        Operand::Not(inner) | Operand::Negate(inner) => each_name(inner, call),
        Operand::Immediate(_) | Operand::NameOffset { .. } | Operand::Sink => {}
    }
}

impl Decoder<'_> {
    /// Makes a program detect instructions that access registers of products.
    pub(crate) fn watch_registers(&mut self, inst: &Instruction) {
        if self.f.watched.is_empty() || inst.opcode == Opcode::Wgmma {
            return;
        }
        for (n, operand) in inst.operands.iter().enumerate() {
            let writes = n == 0 && !matches!(operand, Operand::Address(_));
            let mut names = Vec::new();
            each_name(operand, &mut |name| names.push(name.clone()));
            names.retain(|name| self.f.watched.contains(name));
            for name in names {
                if let Ok(&Symbol::Register { register }) = self.lookup(inst, &name) {
                    let a = self.f.register_row(register);
                    let touch = self.handler::<Touch>();
                    self.push(Op { a, imm: writes.into(), ..Op::new(touch) });
                }
            }
        }
    }
}
