//! Bitwise logic and shifts (PTX ISA, "Logic and Shift Instructions").

use warpfold_ptx::Opcode;

use super::arithmetic::normalize;
use crate::fold;
use crate::recorder::{Raw, Recorder};
use crate::types::Type;

/// `a & b`; the caller has folded constants.
pub(crate) fn and(r: &mut Recorder, ty: Type, a: Raw, b: Raw) -> Raw {
    bitwise(r, Opcode::And, ty, a, b)
}

/// `a | b`; the caller has folded constants.
pub(crate) fn or(r: &mut Recorder, ty: Type, a: Raw, b: Raw) -> Raw {
    bitwise(r, Opcode::Or, ty, a, b)
}

/// `a ^ b`; the caller has folded constants.
pub(crate) fn xor(r: &mut Recorder, ty: Type, a: Raw, b: Raw) -> Raw {
    match (a, b) {
        (x, Raw::Const(1)) | (Raw::Const(1), x) if ty == Type::Bool => not(r, ty, x),
        _ => bitwise(r, Opcode::Xor, ty, a, b),
    }
}

fn bitwise(r: &mut Recorder, opcode: Opcode, ty: Type, a: Raw, b: Raw) -> Raw {
    let operands = vec![r.operand(ty, a), r.operand(ty, b)];
    r.define(ty.register(), opcode, &[ty.untyped().name()], operands)
}

/// `!a`.
pub(crate) fn not(r: &mut Recorder, ty: Type, a: Raw) -> Raw {
    if let Raw::Const(bits) = a {
        return Raw::Const(!bits & (u64::MAX >> (64 - ty.bits())));
    }
    let operand = r.operand(ty, a);
    let result = r.define(ty.register(), Opcode::Not, &[ty.untyped().name()], vec![operand]);
    normalize(r, ty, result)
}

/// `a << amount` or `a >> amount` (arithmetic for signed types); amounts beyond the width count as
/// the width.
pub(crate) fn shift(r: &mut Recorder, left: bool, ty: Type, a: Raw, amount: Raw) -> Raw {
    match (a, amount) {
        (Raw::Const(a), Raw::Const(amount)) => return Raw::Const(fold::shift(left, ty, a, amount)),
        (_, Raw::Const(0)) => return a,
        _ => {}
    }
    let operands = vec![r.operand(ty, a), r.operand(Type::U32, amount)];
    let (opcode, kind) = if left { (Opcode::Shl, ty.untyped()) } else { (Opcode::Shr, ty.arithmetic()) };
    let result = r.define(ty.register(), opcode, &[kind.name()], operands);
    if left { normalize(r, ty, result) } else { result }
}
