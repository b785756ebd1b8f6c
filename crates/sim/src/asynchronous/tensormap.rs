//! `tensormap.replace` and `tensormap.cp_fenceproxy`: tensor maps that a kernel modifies, in shared
//! or in global memory, and copies out (PTX ISA, "tensormap.replace", "tensormap.cp_fenceproxy").

use warpfold_ptx::{Instruction, ScalarType as T};

use super::address::{address_row, shared_row};
use super::bulk::Refused;
use super::bytes;
use crate::Error;
use crate::check::Kind;
use crate::decode::Decoder;
use crate::exec::code::Class;
use crate::exec::machine::Machine;
use crate::exec::memory_map::{SHARED_WINDOW, Window, window};
use crate::exec::op::{LaneOp, Op};
use crate::memory_ops::access::{Space, scope_of};
use crate::report::FindingKind;
use crate::tensor_map::object::{self, BYTES, Field};
use crate::tensor_ops::expect_whole_warp;
use crate::warp_ops::fence::Fence;

const SIZE: u32 = BYTES as u32;
/// Alignment of a map in bytes.
const ALIGN: u32 = 64;

/// Shift in `imm` of the dimension, above the field's index in the list below.
const ORDINAL_SHIFT: i64 = 8;
/// The address is an offset in shared memory.
const IN_SHARED: i64 = 1 << 16;

/// `tensormap.replace`: `a` the address, `b` the value.
struct Replace;
impl LaneOp for Replace {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operands.
        let (at, values) = unsafe { (m.read::<u64>(op.a), m.read::<u64>(op.b)) };
        for lane in (0..32u32).filter(|lane| mask >> lane & 1 != 0) {
            let start = if op.imm & IN_SHARED == 0 { 0 } else { SHARED_WINDOW };
            // A request that breaks a rule has been reported, and is dropped.
            let _ = m.replace_in_map(op, lane, at[lane as usize].wrapping_add(start), values[lane as usize]);
        }
    }
}

/// `tensormap.cp_fenceproxy` by a warp: `a` the address in global memory, `b` the offset in shared
/// memory, `imm` the scope.
struct CopyAndFence<const CHECK: bool>;
impl<const CHECK: bool> LaneOp for CopyAndFence<CHECK> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        expect_whole_warp(m, op, mask);
        // SAFETY: the decoder checked the operands.
        let (to, from) = unsafe { (m.read::<u64>(op.a), m.read::<u64>(op.b)) };
        let pair = |lane: u32| (to[lane as usize], from[lane as usize]);
        let lanes = (0..32u32).filter(|lane| mask >> lane & 1 != 0);
        for lane in lanes.clone().filter(|&lane| lanes.clone().find(|&other| pair(other) == pair(lane)) == Some(lane)) {
            // A request that breaks a rule has been reported, and is dropped.
            let _ = m.copy_map(op, lane, pair(lane));
        }
        // SAFETY: passed on; a fence reads no row.
        unsafe { Fence::<CHECK>::run(m, op, mask) };
        if CHECK {
            m.check_maps_released();
        }
    }
}

impl Machine {
    fn replace_in_map(&mut self, op: &Op, lane: u32, address: u64, value: u64) -> Result<(), Refused> {
        let field = Field::ALL[(op.imm & 0xff) as usize].1;
        let ordinal = (op.imm >> ORDINAL_SHIFT & 7) as usize;
        let mut object = [0; BYTES];
        match window(address) {
            (Window::Shared, offset) => object = self.map_in_shared(op, lane, offset, Kind::Write)?,
            _ => {
                self.map_place(op, lane, address)?;
                bytes::load(&mut self.global, address, &mut object);
            }
        }
        if let Err(e) = object::replace(&mut object, field, ordinal, value) {
            return self.refuse(op, FindingKind::OutOfBounds, lane, address, format!("no tensor map: {e}"));
        }
        if let (Window::Shared, offset) = window(address) {
            let offset = u32::try_from(offset).expect("it was found in shared memory");
            // SAFETY: the map was found inside the block's shared memory.
            unsafe { std::ptr::copy_nonoverlapping(object.as_ptr(), self.shared.add(offset as usize), BYTES) };
        } else {
            self.put_map(op, lane, address, &object);
        }
        self.progress = true;
        Ok(())
    }

    fn copy_map(&mut self, op: &Op, lane: u32, (to, from): (u64, u64)) -> Result<(), Refused> {
        let object = self.map_in_shared(op, lane, from, Kind::Read)?;
        self.map_place(op, lane, to)?;
        self.put_map(op, lane, to, &object);
        self.progress = true;
        Ok(())
    }

    /// The bytes of a map in the block's shared memory, to be read or replaced.
    fn map_in_shared(&mut self, op: &Op, lane: u32, offset: u64, kind: Kind) -> Result<[u8; BYTES], Refused> {
        let place = self.shared_side(op, lane, offset, SIZE, ALIGN)?;
        if !place.is_own {
            let rule = "a tensor map in the shared memory of another block".to_owned();
            return self.refuse(op, FindingKind::OutOfBounds, lane, SHARED_WINDOW.wrapping_add(offset), rule);
        }
        self.check_shared_object(op.instruction, lane, (place.offset, SIZE), kind);
        let mut object = [0; BYTES];
        // SAFETY: the range was found inside the block's shared memory.
        unsafe { std::ptr::copy_nonoverlapping(self.shared.add(place.offset as usize), object.as_mut_ptr(), BYTES) };
        Ok(object)
    }

    /// Checks that a map can be at a place in global memory.
    fn map_place(&mut self, op: &Op, lane: u32, address: u64) -> Result<(), Refused> {
        if !address.is_multiple_of(u64::from(ALIGN)) {
            let rule = format!("a tensor map must be aligned to {ALIGN} bytes");
            return self.refuse(op, FindingKind::Misaligned, lane, address, rule);
        }
        self.in_global(op, lane, address, SIZE)
    }

    fn put_map(&mut self, op: &Op, lane: u32, address: u64, object: &[u8; BYTES]) {
        self.check_map(op.instruction, lane, address, Kind::Write);
        bytes::store(&mut self.global, address, object);
    }
}

/// Decodes `tensormap`.
pub(crate) fn decode(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    if inst.has("cp_fenceproxy") { copy_and_fence(d, inst) } else { replace(d, inst) }
}

fn replace(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    let names: Vec<&str> = Field::ALL.iter().map(|(name, _)| *name).filter(|name| inst.has(name)).collect();
    let known = ["replace", "tile", "global", "shared::cta", "b1024"];
    if inst.has("swizzle_atomicity") {
        return Err(d.unsupported(inst, ".swizzle_atomicity exists from sm_100a on"));
    }
    d.expect_modifiers(inst, &[&known[..], &names].concat())?;
    d.require_specific(inst, 90)?;
    let [name] = names[..] else { return Err(d.invalid(inst, "expected one field")) };
    let index = Field::ALL.iter().position(|(listed, _)| *listed == name).expect("it was found there");
    let field = Field::ALL[index].1;
    let ty = if field.is_wide() { T::B64 } else { T::B32 };
    let found = inst.types().last();
    if !inst.has("replace") || !inst.has("tile") || !inst.has("b1024") || found != Some(ty) {
        return Err(d.invalid(inst, format!("expected .replace.tile.{name}.b1024.{}", ty.name())));
    }
    let ordinal = if field.is_ordinal() { d.literal(inst, 1)? } else { 0 };
    let Some(ordinal) = i64::try_from(ordinal).ok().filter(|n| (0..5).contains(n)) else {
        return Err(d.invalid(inst, format!("{ordinal} is no dimension")));
    };
    let value_at = 1 + usize::from(field.is_ordinal());
    d.expect_operands(inst, value_at + 1)?;
    if let Some(choices) = field.choices() {
        let value = d.literal(inst, value_at)?;
        if !usize::try_from(value).is_ok_and(|value| value < choices) {
            return Err(d.invalid(inst, format!("{value} is no {name}; there are {choices}")));
        }
    }
    d.set_class(Class::Store);
    let a = match (inst.has("global"), inst.has("shared::cta")) {
        (true, false) => address_row(d, inst, 0, Space::Global)?,
        (false, true) => shared_row(d, inst, 0, false)?,
        (false, false) => address_row(d, inst, 0, Space::Generic)?,
        (true, true) => return Err(d.invalid(inst, "expected one state space")),
    };
    let value = d.src(inst, value_at, ty)?;
    let b = d.resize(value, ty, T::B64, false);
    let space = if inst.has("shared::cta") { IN_SHARED } else { 0 };
    let imm = i64::try_from(index).expect("ten fields") | ordinal << ORDINAL_SHIFT | space;
    d.push(Op { a, b, imm, ..Op::new(d.handler::<Replace>()) });
    Ok(())
}

fn copy_and_fence(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    d.require(inst, 90)?;
    let scopes = ["cta", "cluster", "gpu", "sys"];
    let needed = ["cp_fenceproxy", "global", "shared::cta", "tensormap::generic", "release", "sync", "aligned"];
    d.expect_modifiers(inst, &[&needed[..], &scopes].concat())?;
    if !needed.iter().all(|name| inst.has(name)) || !scopes.iter().any(|scope| inst.has(scope)) {
        let expected = ".global.shared::cta.tensormap::generic.release, a scope and .sync.aligned";
        return Err(d.invalid(inst, format!("expected {expected}")));
    }
    d.expect_operands(inst, 3)?;
    if d.literal(inst, 2)? != i128::from(SIZE) {
        return Err(d.invalid(inst, format!("a tensor map has {SIZE} bytes")));
    }
    d.set_class(Class::Store);
    d.code.orders_blocks = true;
    let a = address_row(d, inst, 0, Space::Global)?;
    let b = shared_row(d, inst, 1, false)?;
    let handler = if d.checked { d.handler::<CopyAndFence<true>>() } else { d.handler::<CopyAndFence<false>>() };
    let members = d.constant32(u32::MAX);
    d.exchange(inst, Some(Op { a, b, imm: scope_of(inst) as i64, ..Op::new(handler) }), members)
}
