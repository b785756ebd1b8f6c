//! `cvt` between all types (PTX ISA, "Data Movement and Conversion Instructions: cvt" and
//! "cvt.pack").
//!
//! Start with [`decode`]: it sorts a conversion by the kinds of its types. What programs use all
//! the time has a handler that vectorises; everything else is one
//! [`Conversion`](general::Conversion), done in integers.
//!
//! Absent: what needs `sm_100` (`.rs`, `.scaled`, `e2m1`, `e2m3`, `e3m2`, `ue8m0`, `s2f6`, `.x4`).

mod float;
mod general;
mod integer;
mod pack;
mod packed;
mod to_integer;

use warpfold_ptx::{Instruction, ScalarType as T};

use self::general::Conversion;
use crate::Error;
use crate::alu::float::soft::Rounding;
use crate::alu::float::{one_of, rounding};
use crate::decode::Decoder;
use crate::exec::op::{Handler, Op};

/// Class of a type in conversions.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Integer,
    Float,
    Packed,
    Other,
}

fn kind(ty: T) -> Kind {
    match ty {
        T::U8 | T::U16 | T::U32 | T::U64 | T::S8 | T::S16 | T::S32 | T::S64 => Kind::Integer,
        T::F16 | T::Bf16 | T::F32 | T::F64 | T::Tf32 => Kind::Float,
        T::F16x2 | T::Bf16x2 | T::E4m3x2 | T::E5m2x2 => Kind::Packed,
        _ => Kind::Other,
    }
}

/// Decodes `cvt`.
pub(crate) fn decode(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    if inst.has("pack") {
        return pack::decode(d, inst);
    }
    d.expect_modifiers(
        inst,
        &["rni", "rzi", "rmi", "rpi", "rn", "rna", "rz", "rm", "rp", "ftz", "sat", "relu", "satfinite"],
    )?;
    let (to, from) = (d.ty(inst, 0)?, d.ty(inst, 1)?);
    if inst.has("ftz") && to != T::F32 && from != T::F32 {
        return Err(d.invalid(inst, "'.ftz' is for .f32"));
    }
    if inst.has("rna") && to != T::Tf32 {
        return Err(d.invalid(inst, "'.rna' is for .tf32"));
    }
    match (kind(to), kind(from)) {
        (Kind::Integer, Kind::Integer) => integer::decode(d, inst, to, from),
        (Kind::Integer, Kind::Float) if from != T::Tf32 => to_integer::decode(d, inst, to, from),
        (Kind::Float, Kind::Integer) if to != T::Tf32 => float::decode_from_integer(d, inst, to, from),
        (Kind::Float, Kind::Float) if from != T::Tf32 => float::decode(d, inst, to, from),
        (Kind::Packed, Kind::Float | Kind::Packed) => packed::decode(d, inst, to, from),
        _ => Err(d.unsupported(inst, format!("no conversion from .{} to .{}", from.name(), to.name()))),
    }
}

/// The floating-point rounding, which must be written.
fn float_rounding(d: &Decoder, inst: &Instruction) -> Result<Rounding, Error> {
    optional_rounding(d, inst)?.ok_or_else(|| d.invalid(inst, "a rounding modifier is needed"))
}

/// The floating-point rounding, if one is written.
fn optional_rounding(d: &Decoder, inst: &Instruction) -> Result<Option<Rounding>, Error> {
    match one_of(d, inst, &[("rn", ()), ("rna", ()), ("rz", ()), ("rm", ()), ("rp", ())])? {
        Some(()) if inst.has("rna") => Ok(Some(Rounding::NearestAway)),
        _ => rounding(d, inst),
    }
}

/// A rounding to an integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Integral {
    Nearest,
    Zero,
    Down,
    Up,
}

/// The integer rounding, if one is written.
fn integer_rounding(d: &Decoder, inst: &Instruction) -> Result<Option<Integral>, Error> {
    let group = [("rni", Integral::Nearest), ("rzi", Integral::Zero), ("rmi", Integral::Down), ("rpi", Integral::Up)];
    one_of(d, inst, &group)
}

/// Emits the conversion of operand 1 to operand 0 by a handler whose result is a float.
fn emit(d: &mut Decoder, inst: &Instruction, handler: Handler, to: T, from: T, imm: i64) -> Result<(), Error> {
    d.expect_operands(inst, 2)?;
    let a = d.src(inst, 1, from)?;
    let dst = d.dst(inst, 0, to)?;
    d.push(Op { dst, a, imm, ..Op::new(handler) });
    Ok(())
}

/// Emits the conversion done in integers.
fn emit_general(d: &mut Decoder, inst: &Instruction, rounding: Rounding, to: T, from: T) -> Result<(), Error> {
    let conversion = Conversion::new(inst, rounding, to, from);
    emit(d, inst, conversion.handler(), to, from, conversion.code())
}
