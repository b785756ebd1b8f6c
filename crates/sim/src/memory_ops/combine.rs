//! Atomic operations: the operation and type of an instruction, and the new value from the old one.

use half::{bf16, f16};
use warpfold_ptx::ScalarType as T;

use crate::exec::memory_map::Window;

/// Operation of an atomic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
    Exch,
    Cas,
    Inc,
    Dec,
}

pub(super) const KINDS: [(&str, Kind); 10] = [
    ("add", Kind::Add),
    ("min", Kind::Min),
    ("max", Kind::Max),
    ("and", Kind::And),
    ("or", Kind::Or),
    ("xor", Kind::Xor),
    ("exch", Kind::Exch),
    ("cas", Kind::Cas),
    ("inc", Kind::Inc),
    ("dec", Kind::Dec),
];

/// The types that atomics distinguish.
const TYPES: [T; 17] = [
    T::B16,
    T::B32,
    T::B64,
    T::B128,
    T::U32,
    T::U64,
    T::S32,
    T::S64,
    T::F16,
    T::Bf16,
    T::F16x2,
    T::Bf16x2,
    T::F32,
    T::F64,
    T::U16,
    T::S16,
    T::F32x2,
];

/// Parameters of an atomic, packed into [`Op::d`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    pub kind: Kind,
    pub ty: T,
    pub space: Option<Window>,
    pub wants_old: bool,
    /// True for `red`, whose read acquires nothing (PTX ISA, "Reductions do not form Acquire
    /// Patterns").
    pub is_red: bool,
}

impl Plan {
    pub(super) fn pack(self) -> u32 {
        let kind = KINDS.iter().position(|(_, k)| *k == self.kind).expect("a listed kind");
        let ty = TYPES.iter().position(|t| *t == self.ty).expect("a listed type");
        let space = match self.space {
            Some(Window::Global) => 0,
            Some(Window::Shared) => 1,
            _ => 2,
        };
        u32::try_from(kind | ty << 4 | space << 10 | usize::from(self.wants_old) << 12 | usize::from(self.is_red) << 13)
            .expect("small")
    }

    pub(super) fn unpack(bits: u32) -> Self {
        let space = match bits >> 10 & 3 {
            0 => Some(Window::Global),
            1 => Some(Window::Shared),
            _ => None,
        };
        Self {
            kind: KINDS[(bits & 15) as usize].1,
            ty: TYPES[(bits >> 4 & 63) as usize],
            space,
            wants_old: bits >> 12 & 1 != 0,
            is_red: bits >> 13 & 1 != 0,
        }
    }
}

/// The new value; sources are zero-extended bits.
pub(super) fn apply(plan: Plan, in_shared: bool, old: u128, value: u128, swap: u128) -> u128 {
    match plan.kind {
        Kind::Exch => value,
        Kind::Cas => {
            if old == value {
                swap
            } else {
                old
            }
        }
        Kind::And => old & value,
        Kind::Or => old | value,
        Kind::Xor => old ^ value,
        Kind::Inc => {
            if old >= value {
                0
            } else {
                old + 1
            }
        }
        Kind::Dec => {
            if old == 0 || old > value {
                value
            } else {
                old - 1
            }
        }
        Kind::Add | Kind::Min | Kind::Max => arithmetic(plan, in_shared, old, value),
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "the bits have the type's width")]
fn arithmetic(plan: Plan, in_shared: bool, old: u128, value: u128) -> u128 {
    let by = |a: i128, b: i128| match plan.kind {
        Kind::Add => a.wrapping_add(b),
        Kind::Min => a.min(b),
        _ => a.max(b),
    };
    let (lo, hi) = (old as u64, value as u64);
    match plan.ty {
        T::S32 => u128::from(by(i128::from(lo as i32), i128::from(hi as i32)) as u32),
        T::S64 => u128::from(by(i128::from(lo as i64), i128::from(hi as i64)) as u64),
        T::U32 | T::B32 => u128::from(by(i128::from(lo as u32), i128::from(hi as u32)) as u32),
        T::F32 => {
            // PTX ISA, `atom`: in global memory `.f32` additions flush subnormals, in shared memory
            // they do not.
            let flush = |v: f32| if !in_shared && v.is_subnormal() { 0.0f32.copysign(v) } else { v };
            let (a, b) = (flush(f32::from_bits(lo as u32)), flush(f32::from_bits(hi as u32)));
            let sum = flush(a + b);
            u128::from(if sum.is_nan() { 0x7fff_ffff } else { sum.to_bits() })
        }
        T::F64 => u128::from((f64::from_bits(lo) + f64::from_bits(hi)).to_bits()),
        T::F16 | T::Bf16 => u128::from(short(plan, lo as u16, hi as u16)),
        T::F16x2 | T::Bf16x2 => {
            let low = short(plan, lo as u16, hi as u16);
            let high = short(plan, (lo >> 16) as u16, (hi >> 16) as u16);
            u128::from(u32::from(low) | u32::from(high) << 16)
        }
        _ => u128::from(by(i128::from(lo), i128::from(hi)) as u64),
    }
}

/// One half-precision element. A sum in f32 rounds to the same half as the exact sum (24 >= 2 * 11
/// + 2).
fn short(plan: Plan, a: u16, b: u16) -> u16 {
    let is_half = matches!(plan.ty, T::F16 | T::F16x2);
    let widen = |v: u16| if is_half { f16::from_bits(v).to_f32() } else { bf16::from_bits(v).to_f32() };
    let (x, y) = (widen(a), widen(b));
    let result = match plan.kind {
        Kind::Add => x + y,
        Kind::Min if y.is_nan() || x < y || (x == y && x.is_sign_negative()) => x,
        Kind::Min => y,
        _ if y.is_nan() || x > y || (x == y && x.is_sign_positive()) => x,
        _ => y,
    };
    match (result.is_nan(), is_half) {
        (true, _) => 0x7fff,
        (false, true) => f16::from_f32(result).to_bits(),
        (false, false) => bf16::from_f32(result).to_bits(),
    }
}
