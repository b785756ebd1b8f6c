//! Addition to remainder, minimum and maximum, negation, multiply-add (PTX ISA, "Integer Arithmetic
//! Instructions", "Floating Point Instructions", "Half Precision Floating Point Instructions").
//!
//! Floating-point operations name `.rn`: without it ptxas may fuse a product into a sum, and the
//! two devices would differ in the last bit.

use warpfold_ptx::{Opcode, ScalarType};

use super::{Comparison, compare, convert, logic};
use crate::ErrorKind;
use crate::fold;
use crate::recorder::{Raw, Recorder};
use crate::types::{Kind, Scalar, Type};

/// An operation on two values of one type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    Min,
    Max,
    /// NaN if either operand is.
    MinNan,
    /// NaN if either operand is.
    MaxNan,
    And,
    Or,
    Xor,
}

/// `a op b`.
pub(crate) fn binary(r: &mut Recorder, op: Binary, ty: Type, a: Raw, b: Raw) -> Raw {
    if let (Raw::Const(a), Raw::Const(b)) = (a, b)
        && let Some(bits) = fold::binary(op, ty, a, b)
    {
        return Raw::Const(bits);
    }
    if let Some(same) = identity(op, ty, a, b) {
        return same;
    }
    match op {
        Binary::And => logic::and(r, ty, a, b),
        Binary::Or => logic::or(r, ty, a, b),
        Binary::Xor => logic::xor(r, ty, a, b),
        _ if ty.is_integer() => {
            let result = int_binary(r, op, ty, a, b);
            normalize(r, ty, result)
        }
        Binary::Add => rounded(r, Opcode::Add, ty, a, b, [a, bf16_constant(ty, 1.0), b]),
        Binary::Sub => rounded(r, Opcode::Sub, ty, a, b, [b, bf16_constant(ty, -1.0), a]),
        Binary::Mul => rounded(r, Opcode::Mul, ty, a, b, [a, b, bf16_constant(ty, -0.0)]),
        Binary::Div => divide(r, ty, a, b),
        Binary::Min => plain(r, Opcode::Min, &[], ty, a, b),
        Binary::Max => plain(r, Opcode::Max, &[], ty, a, b),
        Binary::MinNan => extremum_nan(r, Opcode::Min, ty, a, b),
        Binary::MaxNan => extremum_nan(r, Opcode::Max, ty, a, b),
        Binary::Rem => unsupported(r, "the remainder", ty),
    }
}

/// Returns `x` if the operation with a constant leaves it unchanged; integers and predicates only.
fn identity(op: Binary, ty: Type, a: Raw, b: Raw) -> Option<Raw> {
    if ty.is_float() {
        return None;
    }
    let ones = u64::MAX >> (64 - ty.bits());
    let unit = |op| match op {
        Binary::Add | Binary::Sub | Binary::Or | Binary::Xor => Some(0),
        Binary::Mul | Binary::Div => Some(1),
        Binary::And => Some(ones),
        Binary::Rem | Binary::Min | Binary::Max | Binary::MinNan | Binary::MaxNan => None,
    };
    let commutes = !matches!(op, Binary::Sub | Binary::Div);
    match (a, b) {
        (x, Raw::Const(c)) if unit(op) == Some(c) => Some(x),
        (Raw::Const(c), x) if commutes && unit(op) == Some(c) => Some(x),
        (_, Raw::Const(c)) | (Raw::Const(c), _) => match (op, c) {
            (Binary::And | Binary::Mul, 0) => Some(Raw::Const(0)),
            (Binary::Or, c) if c == ones => Some(Raw::Const(ones)),
            _ => None,
        },
        _ => None,
    }
}

fn unsupported(r: &mut Recorder, what: &str, ty: Type) -> Raw {
    r.fail(ErrorKind::NoSuchOperation { what: what.to_owned(), ty });
    Raw::Const(0)
}

/// One instruction with two operands of its type.
fn plain(r: &mut Recorder, opcode: Opcode, modifiers: &[&'static str], ty: Type, a: Raw, b: Raw) -> Raw {
    let operands = vec![r.operand(ty, a), r.operand(ty, b)];
    let modifiers = [modifiers, &[ty.arithmetic().name()]].concat();
    r.define(ty.register(), opcode, &modifiers, operands)
}

fn int_binary(r: &mut Recorder, op: Binary, ty: Type, a: Raw, b: Raw) -> Raw {
    let (opcode, modifiers): (_, &[_]) = match op {
        Binary::Add => (Opcode::Add, &[]),
        Binary::Sub => (Opcode::Sub, &[]),
        Binary::Mul => (Opcode::Mul, &["lo"]),
        Binary::Div => (Opcode::Div, &[]),
        Binary::Rem => (Opcode::Rem, &[]),
        Binary::Min | Binary::MinNan => (Opcode::Min, &[]),
        Binary::Max | Binary::MaxNan => (Opcode::Max, &[]),
        Binary::And | Binary::Or | Binary::Xor => unreachable!("logic has its own function"),
    };
    plain(r, opcode, modifiers, ty, a, b)
}

/// Wraps or extends the 16-bit register of an 8-bit type to the type's range.
pub(crate) fn normalize(r: &mut Recorder, ty: Type, raw: Raw) -> Raw {
    let Raw::Reg(reg) = raw else { return raw };
    let operand = r.reg(reg);
    match ty {
        Type::U8 | Type::F8E4M3 | Type::F8E5M2 => {
            let mask = r.operand(Type::U16, Raw::Const(0xff));
            r.define(ScalarType::B16, Opcode::And, &["b16"], vec![operand, mask])
        }
        Type::I8 => r.define(ScalarType::B16, Opcode::Cvt, &["s16", "s8"], vec![operand]),
        Type::Bool
        | Type::U16
        | Type::U32
        | Type::U64
        | Type::I16
        | Type::I32
        | Type::I64
        | Type::F16
        | Type::Bf16
        | Type::F16x2
        | Type::Bf16x2
        | Type::F32
        | Type::F64 => raw,
    }
}

/// A small number as a bf16, twice for a pair.
fn bf16_constant(ty: Type, value: f32) -> Raw {
    let value = half::bf16::from_f32(value);
    Raw::Const(if ty.kind() == Kind::Pair {
        crate::Bf16x2([value; 2]).to_bits().into()
    } else {
        Scalar::to_bits(value)
    })
}

/// A sum, difference or product of floats. Before sm_90 bf16 has a fused multiply-add only: `fused`
/// says the same with it, rounding once too.
fn rounded(r: &mut Recorder, opcode: Opcode, ty: Type, a: Raw, b: Raw, fused: [Raw; 3]) -> Raw {
    if matches!(ty, Type::Bf16 | Type::Bf16x2) {
        if !r.target.has(90, (7, 8)) {
            let [a, b, c] = fused;
            return fma(r, ty, a, b, c);
        }
        r.require("bf16 arithmetic", 90, (7, 8));
    }
    plain(r, opcode, &["rn"], ty, a, b)
}

/// Correctly rounded division. Halves divide in f32: 24 bits are enough for the second rounding to
/// be harmless.
fn divide(r: &mut Recorder, ty: Type, a: Raw, b: Raw) -> Raw {
    match ty.kind() {
        Kind::Half => {
            let a = convert::convert(r, ty, Type::F32, a, None);
            let b = convert::convert(r, ty, Type::F32, b, None);
            let quotient = plain(r, Opcode::Div, &["rn"], Type::F32, a, b);
            convert::convert(r, Type::F32, ty, quotient, None)
        }
        Kind::Eight(_) | Kind::Pair => unsupported(r, "division", ty),
        Kind::Bool | Kind::Integer | Kind::Wide => plain(r, Opcode::Div, &["rn"], ty, a, b),
    }
}

fn extremum_nan(r: &mut Recorder, opcode: Opcode, ty: Type, a: Raw, b: Raw) -> Raw {
    if ty != Type::F64 {
        return plain(r, opcode, &["NaN"], ty, a, b);
    }
    // f64 has no `.NaN` form.
    let extremum = plain(r, opcode, &[], ty, a, b);
    let nan = plain(r, Opcode::Add, &["rn"], ty, a, b);
    let unordered = compare::unordered(r, ty, a, b);
    compare::select(r, ty, unordered, nan, extremum)
}

/// `a * b + c`: one rounding for floats, wrapping for integers.
pub(crate) fn fma(r: &mut Recorder, ty: Type, a: Raw, b: Raw, c: Raw) -> Raw {
    if ty.is_integer() {
        let simple = |x| matches!(x, Raw::Const(0 | 1));
        if simple(a) || simple(b) || c == Raw::Const(0) || matches!((a, b), (Raw::Const(_), Raw::Const(_))) {
            let product = binary(r, Binary::Mul, ty, a, b);
            return binary(r, Binary::Add, ty, product, c);
        }
        let operands = vec![r.operand(ty, a), r.operand(ty, b), r.operand(ty, c)];
        let result = r.define(ty.register(), Opcode::Mad, &["lo", ty.arithmetic().name()], operands);
        return normalize(r, ty, result);
    }
    let operands = vec![r.operand(ty, a), r.operand(ty, b), r.operand(ty, c)];
    r.define(ty.register(), Opcode::Fma, &["rn", ty.arithmetic().name()], operands)
}

/// The upper half of the double-width product.
pub(crate) fn mul_hi(r: &mut Recorder, ty: Type, a: Raw, b: Raw) -> Raw {
    if matches!(ty, Type::U8 | Type::I8) {
        return unsupported(r, "mul_hi", ty);
    }
    plain(r, Opcode::Mul, &["hi"], ty, a, b)
}

/// `-a`
pub(crate) fn neg(r: &mut Recorder, ty: Type, a: Raw) -> Raw {
    sign(r, Opcode::Neg, ty, a)
}

/// `|a|`
pub(crate) fn abs(r: &mut Recorder, ty: Type, a: Raw) -> Raw {
    sign(r, Opcode::Abs, ty, a)
}

fn sign(r: &mut Recorder, opcode: Opcode, ty: Type, a: Raw) -> Raw {
    if let (Raw::Const(bits), true) = (a, ty.is_integer()) {
        let zero_minus = fold::binary(Binary::Sub, ty, 0, bits);
        let negative = fold::compare(Comparison::Lt, ty, bits, 0) == Some(true);
        if let Some(minus) = zero_minus {
            return Raw::Const(if opcode == Opcode::Neg || negative { minus } else { bits });
        }
    }
    let operand = r.operand(ty, a);
    let result = r.define(ty.register(), opcode, &[ty.arithmetic().name()], vec![operand]);
    normalize(r, ty, result)
}
