//! Reductions of `cp.reduce.async.bulk` at its destination (PTX ISA, "cp.reduce.async.bulk").

use warpfold_ptx::{Instruction, ScalarType as T};

use super::bytes;
use crate::Error;
use crate::alu::float::finish::canonical;
use crate::decode::Decoder;
use crate::exec::machine::GlobalView;

/// The operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Add,
    Min,
    Max,
    Inc,
    Dec,
    And,
    Or,
    Xor,
}

const OPERATIONS: [(&str, Operation); 8] = [
    ("add", Operation::Add),
    ("min", Operation::Min),
    ("max", Operation::Max),
    ("inc", Operation::Inc),
    ("dec", Operation::Dec),
    ("and", Operation::And),
    ("or", Operation::Or),
    ("xor", Operation::Xor),
];

/// A reduction on elements of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reduction {
    operation: Operation,
    ty: T,
    /// Flushes subnormal numbers of `.f32` to zero: always in linear copies, in tensor copies if
    /// the map says so (an H200, driver 580, 2026-11-21).
    flushes: bool,
}

macro_rules! integer {
    ($ty:ty, $op:expr, $a:expr, $b:expr) => {{
        let (a, b) = ($a as $ty, $b as $ty);
        u64::from_le_bytes({
            let r: $ty = match $op {
                Operation::Add => a.wrapping_add(b),
                Operation::Min => a.min(b),
                Operation::Max => a.max(b),
                Operation::Inc => {
                    if a >= b {
                        0
                    } else {
                        a + 1
                    }
                }
                Operation::Dec => {
                    if a == 0 || a > b {
                        b
                    } else {
                        a - 1
                    }
                }
                Operation::And => a & b,
                Operation::Or => a | b,
                Operation::Xor => a ^ b,
            };
            let mut bytes = [0; 8];
            bytes[..size_of::<$ty>()].copy_from_slice(&r.to_le_bytes());
            bytes
        })
    }};
}

impl Reduction {
    /// The reduction of an instruction on whole elements.
    pub(super) fn decode(d: &Decoder, inst: &Instruction, is_global: bool) -> Result<Self, Error> {
        let named = OPERATIONS.iter().find(|(name, _)| inst.has(name));
        let Some(&(_, operation)) = named else { return Err(d.invalid(inst, "a reduction is missing")) };
        let ty = d.ty(inst, 0)?;
        use Operation as O;
        let fits = match operation {
            O::Add if is_global => matches!(ty, T::U32 | T::S32 | T::U64 | T::F32 | T::F64 | T::F16 | T::Bf16),
            O::Add => matches!(ty, T::U32 | T::S32 | T::U64),
            O::Min | O::Max if is_global => {
                matches!(ty, T::U32 | T::S32 | T::U64 | T::S64 | T::F16 | T::Bf16)
            }
            O::Min | O::Max => matches!(ty, T::U32 | T::S32),
            O::Inc | O::Dec => ty == T::U32,
            O::And | O::Or | O::Xor => ty == T::B32 || (is_global && ty == T::B64),
        };
        let is_half = matches!(ty, T::F16 | T::Bf16) && operation == O::Add;
        if !fits || inst.has("noftz") != is_half {
            return Err(d.invalid(inst, "no such reduction of this type"));
        }
        Ok(Self { operation, ty, flushes: true })
    }

    /// The reduction of `red.async`.
    pub(super) fn of_thread(d: &Decoder, inst: &Instruction) -> Result<Self, Error> {
        // ptxas takes a sum of .s64, too, which is that of .u64.
        match Self::decode(d, inst, false) {
            Err(_) if inst.has("add") && d.ty(inst, 0)? == T::S64 => {
                Ok(Self { operation: Operation::Add, ty: T::U64, flushes: true })
            }
            other => other,
        }
    }

    /// The reduction of a tensor copy, whose type is that of the map.
    pub(super) fn of_tensor(d: &Decoder, inst: &Instruction) -> Result<Self, Error> {
        let named = OPERATIONS.iter().find(|(name, _)| inst.has(name));
        let Some(&(_, operation)) = named else { return Err(d.invalid(inst, "a reduction is missing")) };
        Ok(Self { operation, ty: T::B32, flushes: false })
    }

    /// The reduction for a tensor's element type; `None` if it is not supported.
    pub(super) fn on(self, element: crate::tensor_map::TensorType) -> Option<Self> {
        use crate::tensor_map::TensorType as E;
        use Operation as O;
        let is_bits = matches!(self.operation, O::And | O::Or | O::Xor);
        let ty = match element {
            E::U32 if is_bits => T::B32,
            E::I32 if is_bits => T::B32,
            E::U64 | E::I64 if is_bits => T::B64,
            E::U32 => T::U32,
            E::I32 => T::S32,
            E::U64 => T::U64,
            E::I64 => T::S64,
            E::F16 => T::F16,
            E::Bf16 => T::Bf16,
            // Sums of TF32 are those of `.f32`, and are not rounded.
            E::F32 | E::F32Ftz | E::Tf32 | E::Tf32Ftz => T::F32,
            E::F64 => T::F64,
            E::U8 | E::U16 => return None,
        };
        let is_float = matches!(ty, T::F16 | T::Bf16 | T::F32 | T::F64);
        let fits = match self.operation {
            O::Add => true,
            O::Min | O::Max => !matches!(ty, T::F32 | T::F64),
            O::Inc | O::Dec => ty == T::U32,
            O::And | O::Or | O::Xor => !is_float,
        };
        let flushes = matches!(element, E::F32Ftz | E::Tf32Ftz);
        fits.then_some(Self { ty, flushes, ..self })
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "elements are cut to their type")]
    fn combine(self, old: u64, new: u64) -> u64 {
        let op = self.operation;
        match self.ty {
            T::S32 => integer!(i32, op, old, new),
            T::S64 => integer!(i64, op, old, new),
            T::U64 | T::B64 => integer!(u64, op, old, new),
            T::F16 => {
                let (a, b) = (half::f16::from_bits(old as u16), half::f16::from_bits(new as u16));
                u64::from(float(op, a.to_f32(), b.to_f32(), half::f16::from_f32).to_bits())
            }
            T::Bf16 => {
                let (a, b) = (half::bf16::from_bits(old as u16), half::bf16::from_bits(new as u16));
                u64::from(float(op, a.to_f32(), b.to_f32(), half::bf16::from_f32).to_bits())
            }
            T::F32 => {
                let flush = |v: f32| if self.flushes && v.is_subnormal() { 0f32.copysign(v) } else { v };
                let (a, b) = (flush(f32::from_bits(old as u32)), flush(f32::from_bits(new as u32)));
                u64::from(canonical(flush(a + b)))
            }
            T::F64 => (f64::from_bits(old) + f64::from_bits(new)).to_bits(),
            _ => integer!(u32, op, old, new),
        }
    }

    fn element(self) -> usize {
        self.ty.bytes() as usize
    }

    /// `to = to ∘ from`, element by element.
    pub(super) fn apply(self, to: &mut [u8], from: &[u8]) {
        for (to, from) in to.chunks_exact_mut(self.element()).zip(from.chunks_exact(self.element())) {
            let number = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |all, &b| all << 8 | u64::from(b));
            let result = self.combine(number(to), number(from)).to_le_bytes();
            let bytes = to.len();
            to.copy_from_slice(&result[..bytes]);
        }
    }

    /// Applies the reduction in global memory: atomically for each element.
    pub(super) fn apply_global(self, global: &mut GlobalView, address: u64, from: &[u8]) {
        let size = self.element();
        for (n, part) in from.chunks_exact(size).enumerate() {
            bytes::update(global, address.wrapping_add((n * size) as u64), size, |old| {
                let mut new = old;
                self.apply(&mut new[..size], part);
                new
            });
        }
    }
}

/// The result of an operation on halves, computed in `f32`, which holds sums of two exactly enough
/// to round once.
fn float<H>(op: Operation, a: f32, b: f32, round: impl Fn(f32) -> H) -> H {
    round(match op {
        Operation::Min => {
            if b.is_nan() || a < b {
                a
            } else {
                b
            }
        }
        Operation::Max => {
            if b.is_nan() || a > b {
                a
            } else {
                b
            }
        }
        _ => a + b,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor_map::TensorType;

    #[test]
    fn sums_of_a_tensor_flush_where_its_map_says_so_and_are_not_rounded() {
        let add = Reduction { operation: Operation::Add, ty: T::B32, flushes: false };
        for (element, flushed) in [
            (TensorType::F32, [0x0000_1001, 0x8040_0000]),
            (TensorType::Tf32, [0x0000_1001, 0x8040_0000]),
            (TensorType::F32Ftz, [0, 0x8000_0000]),
            (TensorType::Tf32Ftz, [0, 0x8000_0000]),
        ] {
            let sum = add.on(element).expect("there are sums");
            let of = |bits: u32| {
                let mut to = (-0.0_f32).to_bits().to_le_bytes();
                sum.apply(&mut to, &bits.to_le_bytes());
                u32::from_le_bytes(to)
            };
            assert_eq!([0x0000_1001, 0x8040_0000].map(of), flushed, "{element:?}");
            assert_eq!([0x3dcc_cccd, 0x7f80_0001].map(of), [0x3dcc_cccd, 0x7fff_ffff], "{element:?}");
        }
        assert_eq!(Reduction { operation: Operation::Min, ..add }.on(TensorType::F32), None);
    }
}
