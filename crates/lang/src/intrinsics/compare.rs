//! Comparison and selection (PTX ISA, "Comparison and Selection Instructions").

use warpfold_ptx::{Opcode, ScalarType};

use super::{Binary, arithmetic, convert, logic};
use crate::fold;
use crate::recorder::{Raw, Recorder};
use crate::types::Type;

/// A comparison, with Rust's meaning for NaN: all false but `Ne`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

/// `a comparison b`.
pub(crate) fn compare(r: &mut Recorder, comparison: Comparison, ty: Type, a: Raw, b: Raw) -> Raw {
    if let (Raw::Const(a), Raw::Const(b)) = (a, b)
        && let Some(result) = fold::compare(comparison, ty, a, b)
    {
        return Raw::Const(u64::from(result));
    }
    if ty == Type::Bool {
        let differ = arithmetic::binary(r, Binary::Xor, ty, a, b);
        return if comparison == Comparison::Ne { differ } else { logic::not(r, ty, differ) };
    }
    let name = match comparison {
        Comparison::Eq => "eq",
        Comparison::Ne if ty.is_float() => "neu",
        Comparison::Ne => "ne",
        Comparison::Lt => "lt",
        Comparison::Le => "le",
        Comparison::Gt => "gt",
        Comparison::Ge => "ge",
    };
    setp(r, name, ty, a, b)
}

/// Returns true if either operand is NaN.
pub(crate) fn unordered(r: &mut Recorder, ty: Type, a: Raw, b: Raw) -> Raw {
    setp(r, "nan", ty, a, b)
}

fn setp(r: &mut Recorder, comparison: &'static str, ty: Type, a: Raw, b: Raw) -> Raw {
    if ty == Type::Bf16 {
        // `setp.bf16` needs sm_90; widening is exact and everywhere.
        let a = convert::convert(r, ty, Type::F32, a, None);
        let b = convert::convert(r, ty, Type::F32, b, None);
        return setp(r, comparison, Type::F32, a, b);
    }
    let operands = vec![r.operand(ty, a), r.operand(ty, b)];
    r.define(ScalarType::Pred, Opcode::Setp, &[comparison, ty.arithmetic().name()], operands)
}

/// `condition ? a : b`.
pub(crate) fn select(r: &mut Recorder, ty: Type, condition: Raw, a: Raw, b: Raw) -> Raw {
    if let Raw::Const(condition) = condition {
        return if condition == 1 { a } else { b };
    }
    if a == b {
        return a;
    }
    if ty == Type::Bool {
        let first = arithmetic::binary(r, Binary::And, ty, condition, a);
        let inverse = logic::not(r, ty, condition);
        let second = arithmetic::binary(r, Binary::And, ty, inverse, b);
        return arithmetic::binary(r, Binary::Or, ty, first, second);
    }
    let operands = vec![r.operand(ty, a), r.operand(ty, b), r.in_register(Type::Bool, condition)];
    r.define(ty.register(), Opcode::Selp, &[ty.register().name()], operands)
}
