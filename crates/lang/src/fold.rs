//! Constant folding, so that values known while recording cost no instruction.
//!
//! A result is given only where it is bit-identical to what the hardware computes: a NaN, a
//! division by zero and half-precision arithmetic are left to the device.

use crate::intrinsics::{Binary, Comparison};
use crate::types::{F8E4M3, F8E5M2, Scalar, Type};

/// `a op b` on bits of a type.
pub(crate) fn binary(op: Binary, ty: Type, a: u64, b: u64) -> Option<u64> {
    match ty {
        Type::Bool => logic(op, a, b),
        Type::F32 => f32_binary(op, f32::from_bits(u32::try_from(a).ok()?), f32::from_bits(u32::try_from(b).ok()?)),
        Type::F64 => f64_binary(op, f64::from_bits(a), f64::from_bits(b)),
        Type::F8E4M3 | Type::F8E5M2 | Type::F16 | Type::Bf16 | Type::F16x2 | Type::Bf16x2 => None,
        Type::U8 | Type::U16 | Type::U32 | Type::U64 | Type::I8 | Type::I16 | Type::I32 | Type::I64 => {
            int_binary(op, value(ty, a), value(ty, b)).map(|result| bits(ty, result))
        }
    }
}

/// The number that the bits represent in an integer type.
fn value(ty: Type, bits: u64) -> i128 {
    let shift = 64 - ty.bits();
    if ty.is_signed() { i128::from((bits << shift).cast_signed() >> shift) } else { i128::from(bits) }
}

/// The bits of a number in an integer type, wrapping.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "wrapping is the meaning")]
fn bits(ty: Type, value: i128) -> u64 {
    value as u64 & (u64::MAX >> (64 - ty.bits()))
}

fn int_binary(op: Binary, a: i128, b: i128) -> Option<i128> {
    Some(match op {
        Binary::Add => a + b,
        Binary::Sub => a - b,
        Binary::Mul => a.checked_mul(b)?,
        Binary::Div => a.checked_div(b)?,
        Binary::Rem => a.checked_rem(b)?,
        Binary::Min | Binary::MinNan => a.min(b),
        Binary::Max | Binary::MaxNan => a.max(b),
        Binary::And => a & b,
        Binary::Or => a | b,
        Binary::Xor => a ^ b,
    })
}

fn logic(op: Binary, a: u64, b: u64) -> Option<u64> {
    match op {
        Binary::And => Some(a & b),
        Binary::Or => Some(a | b),
        Binary::Xor => Some(a ^ b),
        Binary::Add
        | Binary::Sub
        | Binary::Mul
        | Binary::Div
        | Binary::Rem
        | Binary::Min
        | Binary::Max
        | Binary::MinNan
        | Binary::MaxNan => None,
    }
}

macro_rules! float_binary {
    ($name:ident $float:ident) => {
        fn $name(op: Binary, a: $float, b: $float) -> Option<u64> {
            let result = match op {
                Binary::Add => a + b,
                Binary::Sub => a - b,
                Binary::Mul => a * b,
                Binary::Div => a / b,
                Binary::Min
                | Binary::Max
                | Binary::MinNan
                | Binary::MaxNan
                | Binary::Rem
                | Binary::And
                | Binary::Or
                | Binary::Xor => return None,
            };
            (!result.is_nan()).then(|| Scalar::to_bits(result))
        }
    };
}

float_binary!(f32_binary f32);
float_binary!(f64_binary f64);

/// `a << amount` or `a >> amount` with PTX's clamped amount.
pub(crate) fn shift(left: bool, ty: Type, a: u64, amount: u64) -> u64 {
    let amount = amount.min(u64::from(ty.bits()));
    let value = value(ty, a);
    bits(ty, if left { value << amount } else { value >> amount })
}

/// `a comparison b`.
pub(crate) fn compare(comparison: Comparison, ty: Type, a: u64, b: u64) -> Option<bool> {
    use std::cmp::Ordering;
    let ordering = match ty {
        Type::F32 => f32::from_bits(u32::try_from(a).ok()?).partial_cmp(&f32::from_bits(u32::try_from(b).ok()?)),
        Type::F64 => f64::from_bits(a).partial_cmp(&f64::from_bits(b)),
        Type::F8E4M3 | Type::F8E5M2 | Type::F16 | Type::Bf16 | Type::F16x2 | Type::Bf16x2 => return None,
        Type::Bool | Type::U8 | Type::U16 | Type::U32 | Type::U64 | Type::I8 | Type::I16 | Type::I32 | Type::I64 => {
            Some(value(ty, a).cmp(&value(ty, b)))
        }
    };
    Some(match comparison {
        Comparison::Eq => ordering == Some(Ordering::Equal),
        Comparison::Ne => ordering != Some(Ordering::Equal),
        Comparison::Lt => ordering == Some(Ordering::Less),
        Comparison::Le => matches!(ordering, Some(Ordering::Less | Ordering::Equal)),
        Comparison::Gt => ordering == Some(Ordering::Greater),
        Comparison::Ge => matches!(ordering, Some(Ordering::Greater | Ordering::Equal)),
    })
}

/// An integer or `bool` constant in another integer type, as Rust's `as` does it.
pub(crate) fn integer_cast(from: Type, to: Type, a: u64) -> u64 {
    bits(to, value(from, a))
}

/// A number as f64, when that is exact.
pub(crate) fn exact_f64(ty: Type, a: u64) -> Option<f64> {
    match ty {
        Type::F8E4M3 => Some(F8E4M3::from_bits(u8::try_from(a).ok()?).to_f32().into()),
        Type::F8E5M2 => Some(F8E5M2::from_bits(u8::try_from(a).ok()?).to_f32().into()),
        Type::F16 => Some(half::f16::from_bits(u16::try_from(a).ok()?).to_f64()),
        Type::Bf16 => Some(half::bf16::from_bits(u16::try_from(a).ok()?).to_f64()),
        Type::F32 => Some(f64::from(f32::from_bits(u32::try_from(a).ok()?))),
        Type::F64 => Some(f64::from_bits(a)),
        Type::F16x2 | Type::Bf16x2 => None,
        Type::Bool | Type::U8 | Type::U16 | Type::U32 | Type::U64 | Type::I8 | Type::I16 | Type::I32 | Type::I64 => {
            let value = value(ty, a);
            #[allow(clippy::cast_precision_loss, reason = "the magnitude is checked")]
            (value.unsigned_abs() <= 1 << 53).then_some(value as f64)
        }
    }
}
