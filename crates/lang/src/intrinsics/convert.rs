//! Conversions between types, copies and packing (PTX ISA, `cvt`, `mov`).

use warpfold_ptx::{self as ptx, Opcode, ScalarType};

use super::arithmetic::{self, Binary, normalize};
use super::compare::{self, Comparison};
use super::f8::{self, Overflow};
use crate::recorder::{Raw, Recorder, Reg};
use crate::types::{F8E4M3, F8E5M2, Kind, Scalar, Type};
use crate::{ErrorKind, Rounding, fold, round_to_odd};

/// The value in another type. Without a rounding mode it is Rust's `as`: floats to integers towards
/// zero and saturating, everything else to nearest even.
pub(crate) fn convert(r: &mut Recorder, from: Type, to: Type, a: Raw, rounding: Option<Rounding>) -> Raw {
    if from == to && rounding.is_none() {
        return a;
    }
    if let Raw::Const(bits) = a
        && let Some(folded) = fold_constant(from, to, bits, rounding)
    {
        return Raw::Const(folded);
    }
    if let Kind::Eight(format) = from.kind() {
        let wide = f8::decode(r, format, a);
        return convert(r, Type::F32, to, wide, rounding);
    }
    match (from, to) {
        _ if pair(from) || pair(to) => {
            r.fail(ErrorKind::NoSuchOperation { what: format!("a cast to {to:?}"), ty: from });
            Raw::Const(0)
        }
        (_, Type::Bool) => compare::compare(r, Comparison::Ne, from, a, Raw::Const(0)),
        (Type::Bool, _) => compare::select(r, to, a, one(to), Raw::Const(0)),
        _ if from.is_integer() && to.is_integer() => integer(r, from, to, a),
        (Type::Bf16, _) => {
            let wide = widen_bf16(r, a);
            convert(r, Type::F32, to, wide, rounding)
        }
        (_, Type::Bf16) => to_bf16(r, from, a, rounding),
        (_, Type::F8E4M3 | Type::F8E5M2) => to_f8(r, from, to, a, rounding),
        _ => cvt(r, from, to, a, rounding),
    }
}

fn pair(ty: Type) -> bool {
    ty.kind() == Kind::Pair
}

fn one(ty: Type) -> Raw {
    Raw::Const(match ty {
        Type::F8E4M3 => Scalar::to_bits(F8E4M3::from_f32(1.0)),
        Type::F8E5M2 => Scalar::to_bits(F8E5M2::from_f32(1.0)),
        Type::F16 => Scalar::to_bits(half::f16::ONE),
        Type::Bf16 => Scalar::to_bits(half::bf16::ONE),
        Type::F32 => Scalar::to_bits(1.0_f32),
        Type::F64 => Scalar::to_bits(1.0_f64),
        Type::F16x2 | Type::Bf16x2 => unreachable!("a predicate is not cast to a pair"),
        Type::Bool | Type::U8 | Type::U16 | Type::U32 | Type::U64 | Type::I8 | Type::I16 | Type::I32 | Type::I64 => 1,
    })
}

fn fold_constant(from: Type, to: Type, bits: u64, rounding: Option<Rounding>) -> Option<u64> {
    let integral = |ty: Type| ty.is_integer() || ty == Type::Bool;
    if integral(from) && integral(to) {
        return Some(if to == Type::Bool { u64::from(bits != 0) } else { fold::integer_cast(from, to, bits) });
    }
    let value = fold::exact_f64(from, bits).filter(|v| !v.is_nan() && rounding.is_none())?;
    #[allow(clippy::cast_possible_truncation, reason = "Rust's `as` is the meaning of the cast")]
    match to {
        Type::F8E4M3 => Some(Scalar::to_bits(F8E4M3::from_f32(round_to_odd::to_odd_f32(value)))),
        Type::F8E5M2 => Some(Scalar::to_bits(F8E5M2::from_f32(round_to_odd::to_odd_f32(value)))),
        Type::F16 => Some(Scalar::to_bits(half::f16::from_f32(round_to_odd::to_odd_f32(value)))),
        Type::Bf16 => Some(Scalar::to_bits(half::bf16::from_f32(round_to_odd::to_odd_f32(value)))),
        Type::F32 => Some(Scalar::to_bits(value as f32)),
        Type::F64 => Some(Scalar::to_bits(value)),
        Type::U8 => Some(Scalar::to_bits(value as u8)),
        Type::U16 => Some(Scalar::to_bits(value as u16)),
        Type::U32 => Some(Scalar::to_bits(value as u32)),
        Type::U64 => Some(Scalar::to_bits(value as u64)),
        Type::I8 => Some(Scalar::to_bits(value as i8)),
        Type::I16 => Some(Scalar::to_bits(value as i16)),
        Type::I32 => Some(Scalar::to_bits(value as i32)),
        Type::I64 => Some(Scalar::to_bits(value as i64)),
        Type::Bool | Type::F16x2 | Type::Bf16x2 => None,
    }
}

/// Wraps or extends; same width is the same register.
fn integer(r: &mut Recorder, from: Type, to: Type, a: Raw) -> Raw {
    let (source, destination) = (from.arithmetic(), to.arithmetic());
    let sized = if source.bits() == destination.bits() {
        a
    } else {
        let operand = r.operand(from, a);
        let extended = match (destination.bits(), from.is_signed()) {
            (16, false) => ScalarType::U16,
            (16, true) => ScalarType::S16,
            (32, false) => ScalarType::U32,
            (32, true) => ScalarType::S32,
            (_, false) => ScalarType::U64,
            (_, true) => ScalarType::S64,
        };
        r.define(to.register(), Opcode::Cvt, &[extended.name(), source.name()], vec![operand])
    };
    // An 8-bit value of the same signedness is in range already.
    if from.bits() == 8 && from.is_signed() == to.is_signed() { sized } else { normalize(r, to, sized) }
}

/// bf16 is the upper half of f32: exact, and without an instruction that only sm_90 has.
fn widen_bf16(r: &mut Recorder, a: Raw) -> Raw {
    let low = ptx::Operand::Immediate(ptx::Immediate::Int(0));
    let high = r.in_register(Type::Bf16, a);
    r.define(ScalarType::F32, Opcode::Mov, &["b32"], vec![ptx::Operand::Vector(vec![low, high])])
}

fn to_bf16(r: &mut Recorder, from: Type, a: Raw, rounding: Option<Rounding>) -> Raw {
    if !matches!(rounding, None | Some(Rounding::NearestEven | Rounding::Zero)) {
        r.fail(ErrorKind::NoSuchOperation { what: "a cast that rounds up or down".to_owned(), ty: Type::Bf16 });
        return Raw::Const(0);
    }
    let wide = to_f32_for_narrowing(r, from, a);
    let mode = float_modifier(rounding.unwrap_or(Rounding::NearestEven));
    let operand = r.operand(Type::F32, wide);
    r.define(ScalarType::B16, Opcode::Cvt, &[mode, "bf16", "f32"], vec![operand])
}

fn to_f8(r: &mut Recorder, from: Type, to: Type, a: Raw, rounding: Option<Rounding>) -> Raw {
    let (Kind::Eight(format), None | Some(Rounding::NearestEven)) = (to.kind(), rounding) else {
        r.fail(ErrorKind::NoSuchOperation { what: "a cast that does not round to nearest".to_owned(), ty: to });
        return Raw::Const(0);
    };
    let wide = to_f32_for_narrowing(r, from, a);
    f8::encode(r, format, wide, Overflow::Saturate)
}

/// An f32 that rounds to at most 11 bits as the value itself does.
fn to_f32_for_narrowing(r: &mut Recorder, from: Type, a: Raw) -> Raw {
    match from.bits() {
        // All values of these types are exact in f32.
        ..=16 => convert(r, from, Type::F32, a, None),
        _ if from == Type::F32 => a,
        _ => to_odd_f32(r, from, a),
    }
}

/// The value in f32 rounded to odd: a second rounding to a few bits then rounds as if it were the
/// only one.
fn to_odd_f32(r: &mut Recorder, from: Type, a: Raw) -> Raw {
    let truncated = cvt(r, from, Type::F32, a, Some(Rounding::Zero));
    let back = convert(r, Type::F32, from, truncated, None);
    let inexact = compare::compare(r, Comparison::Ne, from, back, a);
    let sticky = convert(r, Type::Bool, Type::U32, inexact, None);
    let bits = bitcast(r, Type::F32, Type::U32, truncated);
    let odd = arithmetic::binary(r, Binary::Or, Type::U32, bits, sticky);
    bitcast(r, Type::U32, Type::F32, odd)
}

fn cvt(r: &mut Recorder, from: Type, to: Type, a: Raw, rounding: Option<Rounding>) -> Raw {
    let source = if from.is_integer() || from == Type::F16 { from.arithmetic() } else { from.memory() };
    let destination = if to == Type::F16 { ScalarType::F16 } else { to.memory() };
    let mode = match (from.is_float(), to.is_float()) {
        (true, false) => Some(integer_modifier(rounding.unwrap_or(Rounding::Zero))),
        (true, true) if to.bits() > from.bits() => None,
        (true, true) if to.bits() == from.bits() => Some(integer_modifier(rounding.unwrap_or(Rounding::NearestEven))),
        (true | false, true) | (false, false) => Some(float_modifier(rounding.unwrap_or(Rounding::NearestEven))),
    };
    let operand = r.operand(from, a);
    let modifiers: Vec<_> = mode.into_iter().chain([destination.name(), source.name()]).collect();
    r.define(to.register(), Opcode::Cvt, &modifiers, vec![operand])
}

const fn float_modifier(rounding: Rounding) -> &'static str {
    match rounding {
        Rounding::NearestEven => "rn",
        Rounding::Zero => "rz",
        Rounding::Down => "rm",
        Rounding::Up => "rp",
    }
}

const fn integer_modifier(rounding: Rounding) -> &'static str {
    match rounding {
        Rounding::NearestEven => "rni",
        Rounding::Zero => "rzi",
        Rounding::Down => "rmi",
        Rounding::Up => "rpi",
    }
}

/// A float of the same type with an integral value.
pub(crate) fn round(r: &mut Recorder, ty: Type, a: Raw, rounding: Rounding) -> Raw {
    if ty != Type::Bf16 {
        return cvt(r, ty, ty, a, Some(rounding));
    }
    let wide = widen_bf16(r, a);
    let rounded = cvt(r, Type::F32, Type::F32, wide, Some(rounding));
    to_bf16(r, Type::F32, rounded, None)
}

/// The same bits as another type of the same width.
pub(crate) fn bitcast(r: &mut Recorder, from: Type, to: Type, a: Raw) -> Raw {
    if matches!(a, Raw::Const(_)) {
        return a;
    }
    if from.register() == to.register() {
        return if from.bits() == 8 { normalize(r, to, a) } else { a };
    }
    let operand = r.operand(from, a);
    r.define(to.register(), Opcode::Mov, &[to.untyped().name()], vec![operand])
}

/// A register with the bits of a constant.
pub(crate) fn constant(r: &mut Recorder, ty: Type, bits: u64) -> Reg {
    let reg = r.register(ty.register());
    assign(r, ty, reg, Raw::Const(bits));
    reg
}

/// A fresh register with this value.
pub(crate) fn copy(r: &mut Recorder, ty: Type, a: Raw) -> Reg {
    let reg = r.register(ty.register());
    assign(r, ty, reg, a);
    reg
}

/// Gives a register a new value.
pub(crate) fn assign(r: &mut Recorder, ty: Type, reg: Reg, a: Raw) {
    let destination = r.reg(reg);
    let source = match a {
        Raw::Const(bits) => ptx::Operand::Immediate(crate::recorder::immediate(ty, bits)),
        Raw::Reg(source) => r.reg(source),
    };
    r.push(Opcode::Mov, &[ty.register().name()], vec![destination, source]);
}

/// Splits a register into two of half its width, the low half first.
pub(crate) fn unpack(r: &mut Recorder, ty: Type, half: Type, a: Raw) -> [Raw; 2] {
    let parts = [r.register(half.register()), r.register(half.register())];
    let destination = ptx::Operand::Vector(parts.iter().map(|part| r.reg(*part)).collect());
    let source = r.in_register(ty, a);
    r.push(Opcode::Mov, &[ty.untyped().name()], vec![destination, source]);
    parts.map(Raw::Reg)
}

/// Joins two registers into one of twice the width, the low half first.
pub(crate) fn pack(r: &mut Recorder, half: Type, ty: Type, parts: [Raw; 2]) -> Raw {
    if let [Raw::Const(low), Raw::Const(high)] = parts {
        return Raw::Const(low | high << half.bits());
    }
    let source = ptx::Operand::Vector(parts.iter().map(|part| r.in_register(half, *part)).collect());
    r.define(ty.register(), Opcode::Mov, &[ty.untyped().name()], vec![source])
}

/// Two `f32` rounded into a pair of halves: `cvt` takes the high one first.
pub(crate) fn pair_from_f32(r: &mut Recorder, ty: Type, low: Raw, high: Raw) -> Raw {
    let operands = vec![r.operand(Type::F32, high), r.operand(Type::F32, low)];
    r.define(ScalarType::B32, Opcode::Cvt, &["rn", ty.arithmetic().name(), "f32"], operands)
}
