//! Decoding of bulk copies: their forms and operands.

use warpfold_ptx::{Address, AddressBase, Instruction, Operand, ScalarType as T};

use super::address::{address_row, shared_row};
use super::bulk::{
    BLOCKS, Begin, COORDINATES, Commit, IM2COL, MULTICAST, OFFSETS, REDUCTION_SHIFT, SMALL_ROWS, STORE, STORES_COLUMNS,
    TO_PEER, Wait,
};
use super::reduce::Reduction;
use crate::Error;
use crate::decode::Decoder;
use crate::exec::code::Class;
use crate::exec::op::{NONE, Op};
use crate::memory_ops::access::{Nothing, Space};
use crate::memory_ops::moves::Copy;

const DIMS: [&str; 5] = ["1d", "2d", "3d", "4d", "5d"];
const BARRIER: &str = "mbarrier::complete_tx::bytes";
const KNOWN: [&str; 18] = [
    "async",
    "bulk",
    "tensor",
    "1d",
    "2d",
    "3d",
    "4d",
    "5d",
    "shared::cta",
    "shared::cluster",
    "global",
    "tile",
    "im2col",
    "im2col_no_offs",
    BARRIER,
    "bulk_group",
    "multicast::cluster",
    "L2::cache_hint",
];
/// Modifiers of prefetches, besides `.tensor` and its dimensions.
const PREFETCHES: [&str; 8] = ["async", "bulk", "prefetch", "L2", "global", "tile", "im2col", "L2::cache_hint"];
const REDUCES: [&str; 10] = ["reduce", "add", "min", "max", "inc", "dec", "and", "or", "xor", "noftz"];

/// Decodes `cp.async.bulk…` and `cp.reduce.async.bulk…`.
pub(super) fn decode(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    d.require(inst, 90)?;
    if inst.has("commit_group") {
        d.expect_modifiers(inst, &["async", "bulk", "commit_group"])?;
        d.expect_operands(inst, 0)?;
        d.push(Op::new(d.handler::<Commit>()));
        return Ok(());
    }
    if inst.has("wait_group") {
        d.expect_modifiers(inst, &["async", "bulk", "wait_group", "read"])?;
        d.expect_operands(inst, 1)?;
        let keep = d.literal(inst, 0)?;
        let Ok(imm) = u32::try_from(keep).map(i64::from) else {
            return Err(d.invalid(inst, format!("{keep} is no number of groups")));
        };
        d.push(Op { imm, dst2: u32::from(inst.has("read")), ..Op::new(d.handler::<Wait>()) });
        return Ok(());
    }
    if inst.has("prefetch") {
        return prefetch(d, inst);
    }
    let known = if inst.has("reduce") { [&KNOWN[..], &REDUCES].concat() } else { KNOWN.to_vec() };
    d.expect_modifiers(inst, &known)?;
    copy(d, inst)
}

/// Number of dimensions that the instruction names; 0 without `.tensor`.
fn rank(d: &Decoder, inst: &Instruction) -> Result<usize, Error> {
    let named: Vec<_> = (1..).zip(DIMS).filter(|(_, name)| inst.has(name)).map(|(n, _)| n).collect();
    match (inst.has("tensor"), &named[..]) {
        (false, []) => Ok(0),
        (true, [n]) => Ok(*n),
        _ => Err(d.invalid(inst, "a tensor copy names one number of dimensions")),
    }
}

/// Decodes a prefetch, which has no effect. Operands are read, so that undeclared ones are refused.
fn prefetch(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    d.expect_modifiers(inst, &[&PREFETCHES[..], &["tensor"], &DIMS].concat())?;
    let rank = rank(d, inst)?;
    let im2col = inst.has("im2col");
    if !inst.has("L2") || !inst.has("global") || (im2col && rank < 3) || (rank == 0 && inst.has("tile")) {
        return Err(d.invalid(inst, "expected .L2.global, and a mode that goes with the dimensions"));
    }
    let mut next = 1;
    if rank == 0 {
        address_row(d, inst, 0, Space::Global)?;
        d.src(inst, 1, T::U32)?;
        next += 1;
    } else {
        let Operand::Address(address) = d.operand(inst, 0)?.clone() else {
            return Err(d.invalid(inst, "expected [map, {coordinates}]"));
        };
        map_row(d, inst, &address)?;
        for coordinate in vector(d, inst, &address.coordinates, rank)? {
            d.source(inst, coordinate, T::S32)?;
        }
    }
    if im2col {
        let offsets = d.operand(inst, next)?.clone();
        for offset in vector(d, inst, &[offsets], rank - 2)? {
            d.source(inst, offset, T::U16)?;
        }
        next += 1;
    }
    if inst.has("L2::cache_hint") {
        d.src(inst, next, T::B64)?;
        next += 1;
    }
    d.expect_operands(inst, next)?;
    d.push(Op::new(d.handler::<Nothing>()));
    Ok(())
}

/// The row of a tensor map's generic address.
fn map_row(d: &mut Decoder, inst: &Instruction, address: &Address) -> Result<u32, Error> {
    if address.offset != 0 {
        return Err(d.unsupported(inst, "an offset from a tensor map"));
    }
    match &address.base {
        AddressBase::Name(name) => d.source(inst, &Operand::Name { name: name.clone(), component: None }, T::U64),
        AddressBase::Immediate(_) => Err(d.unsupported(inst, "a tensor map at a fixed address")),
    }
}

/// Copies a small operand to its place in the block of rows.
fn small(d: &mut Decoder, inst: &Instruction, operand: &Operand, ty: T, row: u32) -> Result<(), Error> {
    let a = d.source(inst, operand, ty)?;
    d.push(Op { dst: row, a, ..Op::new(d.handler::<Copy<u32>>()) });
    Ok(())
}

fn vector<'o>(d: &Decoder, inst: &Instruction, operands: &'o [Operand], n: usize) -> Result<&'o [Operand], Error> {
    match operands {
        [Operand::Vector(all)] if all.len() == n => Ok(all),
        _ => Err(d.invalid(inst, format!("expected a vector of {n}"))),
    }
}

/// Form of a copy, by its modifiers.
#[derive(Clone, Copy)]
struct Form {
    /// Dimensions of the tensor; 0 for linear copies.
    rank: usize,
    is_store: bool,
    to_peer: bool,
    multicast: bool,
    im2col: bool,
    columns: bool,
}

impl Form {
    /// Refuses invalid combinations.
    fn of(d: &Decoder, inst: &Instruction) -> Result<Self, Error> {
        let rank = rank(d, inst)?;
        let position = |name: &str| inst.modifiers.iter().position(|m| m == name);
        let spaces: Vec<_> = inst.modifiers.iter().map(|m| m.as_str()).filter(|m| SPACES.contains(m)).collect();
        let (is_store, to_peer) = match spaces[..] {
            ["shared::cta" | "shared::cluster", "global"] => (false, false),
            ["global", "shared::cta"] => (true, false),
            ["shared::cluster", "shared::cta"] if rank == 0 => (false, true),
            _ => return Err(d.invalid(inst, "no copy between these spaces")),
        };
        if inst.has("bulk_group") != is_store || position(BARRIER).is_some() == is_store {
            return Err(d.invalid(inst, "loads complete on an mbarrier, stores in a bulk group"));
        }
        if inst.has("reduce") && !(is_store || to_peer) {
            return Err(d.invalid(inst, "no reduction from global to shared memory"));
        }
        let multicast = inst.has("multicast::cluster");
        if multicast && (is_store || to_peer || spaces[0] != "shared::cluster") {
            return Err(d.invalid(inst, ".multicast::cluster loads from global memory to .shared::cluster"));
        }
        if to_peer && inst.has("L2::cache_hint") {
            return Err(d.invalid(inst, "a hint is for copies from or to global memory"));
        }
        let (im2col, columns) = (inst.has("im2col"), inst.has("im2col_no_offs"));
        if (im2col || columns) && (rank < 3 || im2col == is_store || (im2col && columns)) {
            return Err(d.invalid(inst, "im2col has 3 to 5 dimensions, with offsets for loads and without for stores"));
        }
        Ok(Self { rank, is_store, to_peer, multicast, im2col, columns })
    }

    fn flags(self) -> i64 {
        let Self { rank, is_store, to_peer, multicast, im2col, columns } = self;
        let flag = |holds: bool, flag: i64| if holds { flag } else { 0 };
        i64::try_from(rank).expect("at most five")
            | flag(is_store, STORE)
            | flag(to_peer, TO_PEER)
            | flag(multicast, MULTICAST)
            | flag(im2col, IM2COL)
            | flag(columns, STORES_COLUMNS)
    }
}

fn copy(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    let form = Form::of(d, inst)?;
    let Form { rank, is_store, to_peer, multicast, im2col, .. } = form;
    d.set_class(if is_store { Class::Store } else { Class::Load });
    let mut op = Op { imm: form.flags(), ..Op::new(d.handler::<Begin>()) };
    if inst.has("reduce") {
        let reduction = if rank == 0 { Reduction::decode(d, inst, is_store)? } else { Reduction::of_tensor(d, inst)? };
        d.code.reductions.push(reduction);
        op.imm |= i64::try_from(d.code.reductions.len()).expect("few reductions") << REDUCTION_SHIFT;
    }
    // The operands: destination and source, the bytes of a linear copy, the barrier, offsets,
    // blocks, a hint.
    let (shared_at, other_at) = if is_store { (1, 0) } else { (0, 1) };
    op.a = shared_row(d, inst, shared_at, false)?;
    let needs_rows = rank != 0 || multicast;
    if needs_rows {
        op.c = d.f.fresh_rows(SMALL_ROWS);
    }
    if rank == 0 {
        op.b = if to_peer { shared_row(d, inst, 1, false)? } else { address_row(d, inst, other_at, Space::Global)? };
        op.dst2 = d.src(inst, 2, T::U32)?;
    } else {
        let Operand::Address(address) = d.operand(inst, other_at)?.clone() else {
            return Err(d.invalid(inst, "expected [map, {coordinates}]"));
        };
        op.b = map_row(d, inst, &address)?;
        for (row, coordinate) in (op.c + COORDINATES..).zip(vector(d, inst, &address.coordinates, rank)?) {
            small(d, inst, coordinate, T::S32, row)?;
        }
    }
    let mut next = if rank == 0 { 3 } else { 2 };
    if !is_store {
        op.d = shared_row(d, inst, next, false)?;
        next += 1;
    }
    if im2col {
        let offsets = d.operand(inst, next)?.clone();
        for (row, offset) in (op.c + OFFSETS..).zip(vector(d, inst, &[offsets], rank - 2)?) {
            small(d, inst, offset, T::U16, row)?;
        }
        next += 1;
    }
    if multicast {
        let blocks = d.operand(inst, next)?.clone();
        small(d, inst, &blocks, T::U16, op.c + BLOCKS)?;
        next += 1;
    }
    if inst.has("L2::cache_hint") {
        d.src(inst, next, T::B64)?;
        next += 1;
    }
    d.expect_operands(inst, next)?;
    debug_assert!(is_store || op.d != NONE, "a load has a barrier");
    d.push(op);
    Ok(())
}

const SPACES: [&str; 3] = ["shared::cta", "shared::cluster", "global"];
