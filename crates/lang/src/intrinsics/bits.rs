//! Counting, reversing, extracting and permuting bits; small dot products (PTX ISA, "Integer
//! Arithmetic Instructions", "Logic and Shift Instructions", `prmt`).

use warpfold_ptx::{self as ptx, Opcode, ScalarType};

use crate::ErrorKind;
use crate::recorder::{Raw, Recorder};
use crate::types::Type;

/// `popc`
pub(crate) fn popc(r: &mut Recorder, ty: Type, a: Raw) -> Raw {
    match a {
        Raw::Const(bits) => Raw::Const(bits.count_ones().into()),
        Raw::Reg(_) => count(r, Opcode::Popc, ty, a),
    }
}

/// `clz`
pub(crate) fn clz(r: &mut Recorder, ty: Type, a: Raw) -> Raw {
    match a {
        Raw::Const(bits) => Raw::Const((bits.leading_zeros() - (64 - ty.bits())).into()),
        Raw::Reg(_) => count(r, Opcode::Clz, ty, a),
    }
}

/// The result has 32 bits whatever the operand has.
fn count(r: &mut Recorder, opcode: Opcode, ty: Type, a: Raw) -> Raw {
    let operand = r.operand(ty, a);
    r.define(ScalarType::B32, opcode, &[ty.untyped().name()], vec![operand])
}

/// `brev`
pub(crate) fn reverse(r: &mut Recorder, ty: Type, a: Raw) -> Raw {
    if let Raw::Const(bits) = a {
        return Raw::Const(bits.reverse_bits() >> (64 - ty.bits()));
    }
    let operand = r.operand(ty, a);
    r.define(ty.register(), Opcode::Brev, &[ty.untyped().name()], vec![operand])
}

/// `bfe`
pub(crate) fn extract(r: &mut Recorder, ty: Type, a: Raw, position: Raw, length: Raw) -> Raw {
    let operands = vec![r.in_register(ty, a), r.operand(Type::U32, position), r.operand(Type::U32, length)];
    r.define(ty.register(), Opcode::Bfe, &[ty.memory().name()], operands)
}

/// `bfi`: `field` placed into `into`.
pub(crate) fn insert(r: &mut Recorder, ty: Type, field: Raw, into: Raw, position: Raw, length: Raw) -> Raw {
    let operands =
        vec![r.operand(ty, field), r.operand(ty, into), r.operand(Type::U32, position), r.operand(Type::U32, length)];
    r.define(ty.register(), Opcode::Bfi, &[ty.untyped().name()], operands)
}

/// `shf.l` or `shf.r` of the 64 bits `high:low`, amounts modulo 32 (`wrap`) or up to 32 (`clamp`).
pub(crate) fn funnel(r: &mut Recorder, left: bool, mode: &'static str, low: Raw, high: Raw, amount: Raw) -> Raw {
    let operands = [low, high, amount].map(|operand| r.operand(Type::U32, operand)).to_vec();
    r.define(ScalarType::B32, Opcode::Shf, &[if left { "l" } else { "r" }, mode, "b32"], operands)
}

/// `prmt`: four bytes chosen among the eight of `b:a`.
pub(crate) fn permute(r: &mut Recorder, a: Raw, b: Raw, selector: Raw) -> Raw {
    let operands = [a, b, selector].map(|operand| r.operand(Type::U32, operand)).to_vec();
    r.define(ScalarType::B32, Opcode::Prmt, &["b32"], operands)
}

/// `lop3` with its truth table.
pub(crate) fn lop3(r: &mut Recorder, a: Raw, b: Raw, c: Raw, table: u8) -> Raw {
    let mut operands = [a, b, c].map(|operand| r.operand(Type::U32, operand)).to_vec();
    operands.push(ptx::Operand::Immediate(ptx::Immediate::Int(table.into())));
    r.define(ScalarType::B32, Opcode::Lop3, &["b32"], operands)
}

/// `dp4a`: four products of bytes, added to `c`.
pub(crate) fn dp4a(r: &mut Recorder, ty: Type, a: Raw, b: Raw, c: Raw) -> Raw {
    let operands = [a, b, c].map(|operand| r.operand(ty, operand)).to_vec();
    r.define(ScalarType::B32, Opcode::Dp4a, &[ty.memory().name(), ty.memory().name()], operands)
}

/// `mul.wide`: the whole product of two 32-bit (or 16-bit) integers.
pub(crate) fn mul_wide(r: &mut Recorder, ty: Type, wide: Type, a: Raw, b: Raw) -> Raw {
    if !matches!(ty.bits(), 16 | 32) {
        r.fail(ErrorKind::NoSuchOperation { what: "mul_wide".to_owned(), ty });
        return Raw::Const(0);
    }
    let operands = vec![r.operand(ty, a), r.operand(ty, b)];
    r.define(wide.register(), Opcode::Mul, &["wide", ty.memory().name()], operands)
}
