//! Floats to integers: rounded to an integral value, then clamped.

use std::marker::PhantomData;

use warpfold_ptx::{Instruction, ScalarType as T};

use super::float::integral;
use super::integer::{Integer, emit_integer};
use super::{Integral, integer_rounding};
use crate::Error;
use crate::alu::float::half::{Bf16, F16, Half};
use crate::alu::float::lanes::lanes;
use crate::decode::Decoder;
use crate::exec::machine::Machine;
use crate::exec::op::{Handler, LaneOp, Op};

/// From `.f32`. NaN gives zero, or the top bit for 64-bit results; `.ftz` makes no difference
/// towards zero.
struct From32<D>(PhantomData<D>);
impl<D: Integer> LaneOp for From32<D> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operand widths.
        unsafe {
            lanes!(m, op, mask, |a: f32| -> D { truncate(a) });
        }
    }
}

/// From `.f64`. NaN gives the top bit.
struct From64<D>(PhantomData<D>);
impl<D: Integer> LaneOp for From64<D> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operand widths.
        unsafe {
            lanes!(m, op, mask, |a: f64| -> D { if a.is_nan() { D::top_bit() } else { D::from_f64(a) } });
        }
    }
}

/// From `.f16` or `.bf16`, as from `.f32`.
struct From16<H, D>(PhantomData<(H, D)>);
impl<H: Half, D: Integer> LaneOp for From16<H, D> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operand widths.
        unsafe {
            lanes!(m, op, mask, |a: u16| -> D { truncate(H::widen(a)) });
        }
    }
}

#[inline(always)]
fn truncate<D: Integer>(x: f32) -> D {
    let is_wide = size_of::<D>() == 8;
    if is_wide && x.is_nan() { D::top_bit() } else { D::from_f32(x) }
}

macro_rules! for_destination {
    ($d:expr, $to:expr, $operation:ident $(, $half:ty)?) => {
        match $to {
            T::U8 => $d.handler::<$operation<$($half,)? u8>>(),
            T::U16 => $d.handler::<$operation<$($half,)? u16>>(),
            T::U32 => $d.handler::<$operation<$($half,)? u32>>(),
            T::U64 => $d.handler::<$operation<$($half,)? u64>>(),
            T::S8 => $d.handler::<$operation<$($half,)? i8>>(),
            T::S16 => $d.handler::<$operation<$($half,)? i16>>(),
            T::S32 => $d.handler::<$operation<$($half,)? i32>>(),
            _ => $d.handler::<$operation<$($half,)? i64>>(),
        }
    };
}

/// Decodes `cvt` from a float to an integer.
pub(super) fn decode(d: &mut Decoder, inst: &Instruction, to: T, from: T) -> Result<(), Error> {
    // Clamping is the default: `.sat` adds nothing.
    d.expect_modifiers(inst, &["rni", "rzi", "rmi", "rpi", "ftz", "sat"])?;
    d.expect_operands(inst, 2)?;
    let Some(rounding) = integer_rounding(d, inst)? else {
        return Err(d.invalid(inst, "an integer rounding modifier is needed"));
    };
    let mut a = d.src(inst, 1, from)?;
    if rounding != Integral::Zero {
        let dst = d.f.temporary(from);
        let imm = i64::from(inst.has("ftz"));
        d.push(Op { dst, a, imm, ..Op::new(integral(d, rounding, from)) });
        a = dst;
    }
    let handler: Handler = match from {
        T::F16 => for_destination!(d, to, From16, F16),
        T::Bf16 => for_destination!(d, to, From16, Bf16),
        T::F32 => for_destination!(d, to, From32),
        _ => for_destination!(d, to, From64),
    };
    emit_integer(d, inst, Op { a, ..Op::new(handler) }, to)
}
