//! Bulk asynchronous copies: TMA (PTX ISA, "Data Movement and Conversion Instructions: Tensor
//! copy", "cp.async.bulk"; sm_90).

use warpfold_ptx::{self as ptx, Opcode};

use super::memory::{Location, address};
use crate::recorder::{Raw, Recorder};
use crate::types::Type;

const DIMS: [&str; 5] = ["1d", "2d", "3d", "4d", "5d"];

fn require(r: &mut Recorder) {
    r.require("a bulk copy", 90, (8, 0));
}

/// `[map, {coordinates}]`
fn place(r: &mut Recorder, map: Raw, coordinates: &[Raw]) -> ptx::Operand {
    let coordinates = ptx::Operand::Vector(coordinates.iter().map(|c| r.in_register(Type::I32, *c)).collect());
    ptx::Operand::Address(ptx::Address { base: base(r, map), offset: 0, coordinates: vec![coordinates] })
}

fn base(r: &mut Recorder, address: Raw) -> ptx::AddressBase {
    let ptx::Operand::Name { name, .. } = r.in_register(Type::U64, address) else {
        unreachable!("`in_register` names a register")
    };
    ptx::AddressBase::Name(name)
}

/// The source of a TMA load: a tensor map, and the box to load from it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Source<'a> {
    /// The generic address of its map.
    pub(crate) map: Raw,
    /// Coordinates of the start of the box, innermost dimension first.
    pub(crate) coordinates: &'a [Raw],
    /// For a map in im2col mode: the filter's offsets, `u16`, innermost dimension first.
    pub(crate) offsets: Option<&'a [Raw]>,
    /// True if the data is read once, so that L2 evicts it first.
    pub(crate) is_read_once: bool,
}

/// The cache policy that `createpolicy.fractional.L2::evict_first` makes for all of what is read.
const EVICT_FIRST: u64 = 0x12f0_0000_0000_0000;

/// `cp.async.bulk.tensor` from global to shared memory. With a mask of blocks of the cluster, into
/// all of them.
pub(crate) fn load(r: &mut Recorder, to: Location, from: Source<'_>, barrier: Location, blocks: Option<Raw>) {
    require(r);
    let mode = if from.offsets.is_some() { "im2col" } else { "tile" };
    let dims = DIMS[from.coordinates.len() - 1];
    let mut modifiers = vec!["async", "bulk", "tensor", dims, "shared::cluster", "global", mode];
    modifiers.push("mbarrier::complete_tx::bytes");
    modifiers.extend(blocks.map(|_| "multicast::cluster"));
    modifiers.extend(from.is_read_once.then_some("L2::cache_hint"));
    let mut operands = vec![address(r, to), place(r, from.map, from.coordinates), address(r, barrier)];
    if let Some(offsets) = from.offsets {
        operands.push(ptx::Operand::Vector(offsets.iter().map(|o| r.in_register(Type::U16, *o)).collect()));
    }
    operands.extend(blocks.map(|mask| r.in_register(Type::U16, mask)));
    operands.extend(from.is_read_once.then(|| r.in_register(Type::U64, Raw::Const(EVICT_FIRST))));
    r.push(Opcode::Cp, &modifiers, operands);
}

/// `cp.async.bulk.prefetch.tensor` of a box in tile mode.
pub(crate) fn prefetch_box(r: &mut Recorder, from: Source<'_>) {
    require(r);
    let dims = DIMS[from.coordinates.len() - 1];
    let mut modifiers = vec!["async", "bulk", "prefetch", "tensor", dims, "L2", "global", "tile"];
    modifiers.extend(from.is_read_once.then_some("L2::cache_hint"));
    let mut operands = vec![place(r, from.map, from.coordinates)];
    operands.extend(from.is_read_once.then(|| r.in_register(Type::U64, Raw::Const(EVICT_FIRST))));
    r.push(Opcode::Cp, &modifiers, operands);
}

/// `cp.async.bulk` from global to shared memory.
pub(crate) fn copy(r: &mut Recorder, to: Location, from: Location, bytes: Raw, barrier: Location) {
    require(r);
    let modifiers = ["async", "bulk", "shared::cluster", "global", "mbarrier::complete_tx::bytes"];
    let operands = vec![address(r, to), address(r, from), r.operand(Type::U32, bytes), address(r, barrier)];
    r.push(Opcode::Cp, &modifiers, operands);
}

/// `cp.async.bulk` from shared to global memory.
pub(crate) fn copy_out(r: &mut Recorder, to: Location, from: Location, bytes: Raw) {
    require(r);
    let operands = vec![address(r, to), address(r, from), r.operand(Type::U32, bytes)];
    r.push(Opcode::Cp, &["async", "bulk", "global", "shared::cta", "bulk_group"], operands);
}

/// `cp.async.bulk.tensor` from shared to global memory.
pub(crate) fn store(r: &mut Recorder, map: Raw, coordinates: &[Raw], from: Location) {
    require(r);
    let modifiers =
        ["async", "bulk", "tensor", DIMS[coordinates.len() - 1], "global", "shared::cta", "tile", "bulk_group"];
    let operands = vec![place(r, map, coordinates), address(r, from)];
    r.push(Opcode::Cp, &modifiers, operands);
}

/// `cp.async.bulk.commit_group`
pub(crate) fn commit(r: &mut Recorder) {
    require(r);
    r.push(Opcode::Cp, &["async", "bulk", "commit_group"], vec![]);
}

/// `cp.async.bulk.wait_group`, until at most `pending` groups are in flight; with `read`, until the
/// others have at least read their sources.
pub(crate) fn wait(r: &mut Recorder, pending: u32, read: bool) {
    require(r);
    let mut modifiers = vec!["async", "bulk", "wait_group"];
    modifiers.extend(read.then_some("read"));
    let pending = ptx::Operand::Immediate(ptx::Immediate::Int(pending.into()));
    r.push(Opcode::Cp, &modifiers, vec![pending]);
}

/// `prefetch.tensormap`
pub(crate) fn prefetch_map(r: &mut Recorder, map: Raw) {
    r.require("prefetch.tensormap", 90, (8, 0));
    let operand = ptx::Operand::Address(ptx::Address { base: base(r, map), offset: 0, coordinates: Vec::new() });
    r.push(Opcode::Prefetch, &["tensormap"], vec![operand]);
}
