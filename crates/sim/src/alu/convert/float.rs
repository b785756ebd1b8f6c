//! Conversions to floats: the common cases, in arithmetic that vectorises; the rest goes to
//! [`emit_general`].

use std::marker::PhantomData;

use warpfold_ptx::{Instruction, ScalarType as T};

use super::integer::Integer;
use super::{Integral, emit, emit_general, float_rounding, integer_rounding, optional_rounding};
use crate::Error;
use crate::alu::float::finish::{NAN32, NAN64, QUIET64, canonical, finish, flush_if, propagate, saturate};
use crate::alu::float::half::{Bf16, F16, Half};
use crate::alu::float::lanes::lanes;
use crate::alu::float::soft::Rounding;
use crate::alu::float::{FTZ, SAT, flags};
use crate::decode::Decoder;
use crate::exec::machine::Machine;
use crate::exec::op::{Handler, LaneOp, Op};

/// Declares an operation on one source.
macro_rules! unary {
    ($($(#[$doc:meta])* $name:ident $(<$($p:ident: $bound:ident),*>)? ($a:ty) -> $d:ty = |$x:ident| $body:expr;)*) => {$(
        $(#[$doc])*
        struct $name $(<$($p),*>(PhantomData<($($p,)*)>))?;
        impl $(<$($p: $bound),*>)? LaneOp for $name $(<$($p),*>)? {
            #[inline(always)]
            unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
                // SAFETY: the decoder checked the operand widths.
                unsafe {
                    lanes!(m, op, mask, |$x: $a| -> $d { $body });
                }
            }
        }
    )*};
}

unary! {
    IntegerTo32<A: Integer>(A) -> u32 = |a| a.to_f32().to_bits();
    IntegerTo64<A: Integer>(A) -> u64 = |a| a.to_f64().to_bits();
    /// Through `.f32`: an integer that it rounds is too large for `.f16` in any case.
    IntegerToF16<A: Integer>(A) -> u16 = |a| F16::narrow(a.to_f32());
    /// For integers of at most 16 bits, which `.f32` holds exactly.
    IntegerToBf16<A: Integer>(A) -> u16 = |a| Bf16::narrow(a.to_f32());
    WidenHalf<H: Half>(u16) -> u32 = |a| canonical(H::widen(a));
    NarrowHalf<H: Half>(f32) -> u16 = |a| H::narrow(a);
    NarrowHalfRelu<H: Half>(f32) -> u16 = |a| {
        let bits = H::narrow(a);
        if bits > 0x7fff { 0 } else { bits }
    };
    Narrow64(f64) -> u32 = |a| canonical(nearest32(a));
    /// A NaN keeps its payload.
    Widen32(f32) -> u64 = |a| {
        let bits = u64::from(a.to_bits());
        let nan = (bits & 0x8000_0000) << 32 | NAN64 & !(1 << 63) | (bits & 0x007f_ffff) << 29;
        if a.is_nan() { nan } else { f64::from(a).to_bits() }
    };
    /// Adds half of the last kept bit, in magnitude.
    NearestAwayTf32(u32) -> u32 = |a| {
        let magnitude = a & 0x7fff_ffff;
        let rounded = a.wrapping_add(0x1000) & 0xffff_e000;
        if magnitude > 0x7f80_0000 { NAN32 } else if magnitude == 0x7f80_0000 { a } else { rounded }
    };
}

#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "rounds to nearest")]
fn nearest32(x: f64) -> f32 {
    x as f32
}

/// A rounding of a float to an integral value.
trait Round: 'static {
    fn f32(x: f32) -> f32;
    fn f64(x: f64) -> f64;
}

macro_rules! rounds {
    ($($name:ident = $function:ident;)*) => {$(
        struct $name;
        impl Round for $name {
            #[inline(always)]
            fn f32(x: f32) -> f32 {
                x.$function()
            }
            #[inline(always)]
            fn f64(x: f64) -> f64 {
                x.$function()
            }
        }
    )*};
}

rounds! {
    ToNearest = round_ties_even;
    TowardZero = trunc;
    Downward = floor;
    Upward = ceil;
}

/// The value itself, where no rounding is written.
struct Unrounded;
impl Round for Unrounded {
    #[inline(always)]
    fn f32(x: f32) -> f32 {
        x
    }
    #[inline(always)]
    fn f64(x: f64) -> f64 {
        x
    }
}

struct Integral32<R>(PhantomData<R>);
impl<R: Round> LaneOp for Integral32<R> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        let (ftz, sat) = (op.imm & FTZ != 0, op.imm & SAT != 0);
        // SAFETY: the decoder checked the operand widths.
        unsafe {
            lanes!(m, op, mask, |a: f32| -> u32 { finish(ftz, sat, R::f32(flush_if(ftz, a))) });
        }
    }
}

struct Integral64<R>(PhantomData<R>);
impl<R: Round> LaneOp for Integral64<R> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        let sat = op.imm & SAT != 0;
        // SAFETY: the decoder checked the operand widths.
        unsafe {
            lanes!(m, op, mask, |a: f64| -> u64 {
                let rounded = R::f64(a);
                let positive = if rounded > 0.0 { rounded } else { 0.0 };
                let clamped = if positive > 1.0 { 1.0 } else { positive };
                if sat { clamped.to_bits() } else { propagate(rounded, [a]) }
            });
        }
    }
}

struct Integral16<H, R>(PhantomData<(H, R)>);
impl<H: Half, R: Round> LaneOp for Integral16<H, R> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        let sat = op.imm & SAT != 0;
        // SAFETY: the decoder checked the operand widths.
        unsafe {
            lanes!(m, op, mask, |a: u16| -> u16 {
                let rounded = R::f32(H::widen(a));
                H::narrow(if sat { saturate(rounded) } else { rounded })
            });
        }
    }
}

/// The handler that rounds a float to an integral value of its own type; `Op::imm` has its `FTZ`
/// and `SAT`.
pub(super) fn integral(d: &Decoder, rounding: Integral, ty: T) -> Handler {
    match rounding {
        Integral::Nearest => same_type::<ToNearest>(d, ty),
        Integral::Zero => same_type::<TowardZero>(d, ty),
        Integral::Down => same_type::<Downward>(d, ty),
        Integral::Up => same_type::<Upward>(d, ty),
    }
}

fn same_type<R: Round>(d: &Decoder, ty: T) -> Handler {
    match ty {
        T::F16 => d.handler::<Integral16<F16, R>>(),
        T::Bf16 => d.handler::<Integral16<Bf16, R>>(),
        T::F32 => d.handler::<Integral32<R>>(),
        _ => d.handler::<Integral64<R>>(),
    }
}

/// Decodes `cvt` from an integer to a float.
pub(super) fn decode_from_integer(d: &mut Decoder, inst: &Instruction, to: T, from: T) -> Result<(), Error> {
    d.expect_modifiers(inst, &["rn", "rz", "rm", "rp", "ftz", "sat"])?;
    let rounding = float_rounding(d, inst)?;
    macro_rules! from_any {
        ($operation:ident) => {
            match from {
                T::U8 => d.handler::<$operation<u8>>(),
                T::U16 => d.handler::<$operation<u16>>(),
                T::U32 => d.handler::<$operation<u32>>(),
                T::U64 => d.handler::<$operation<u64>>(),
                T::S8 => d.handler::<$operation<i8>>(),
                T::S16 => d.handler::<$operation<i16>>(),
                T::S32 => d.handler::<$operation<i32>>(),
                _ => d.handler::<$operation<i64>>(),
            }
        };
    }
    let handler = match (to, from) {
        _ if rounding != Rounding::Nearest || inst.has("sat") => None,
        (T::F32, _) => Some(from_any!(IntegerTo32)),
        (T::F64, _) => Some(from_any!(IntegerTo64)),
        (T::F16, _) => Some(from_any!(IntegerToF16)),
        (_, T::U8) => Some(d.handler::<IntegerToBf16<u8>>()),
        (_, T::S8) => Some(d.handler::<IntegerToBf16<i8>>()),
        (_, T::U16) => Some(d.handler::<IntegerToBf16<u16>>()),
        (_, T::S16) => Some(d.handler::<IntegerToBf16<i16>>()),
        _ => None,
    };
    match handler {
        Some(handler) => emit(d, inst, handler, to, from, 0),
        None => emit_general(d, inst, rounding, to, from),
    }
}

/// Decodes `cvt` between floats.
pub(super) fn decode(d: &mut Decoder, inst: &Instruction, to: T, from: T) -> Result<(), Error> {
    let is_small = matches!(to, T::F16 | T::Bf16 | T::Tf32);
    if !is_small && (inst.has("relu") || inst.has("satfinite")) {
        return Err(d.invalid(inst, format!("'.relu' and '.satfinite' are not for .{}", to.name())));
    }
    if to == from {
        return decode_same_type(d, inst, to);
    }
    if integer_rounding(d, inst)?.is_some() {
        return Err(d.invalid(inst, "rounding to an integral value keeps the type"));
    }
    // The ISA asks for a rounding where the result is smaller than the source; between the two types
    // of 16 bits ptxas rounds to nearest without one.
    let is_smaller = to == T::Tf32 || to.bits() < from.bits();
    let rounding =
        if is_smaller { float_rounding(d, inst)? } else { optional_rounding(d, inst)?.unwrap_or(Rounding::Nearest) };
    let is_relu = inst.has("relu");
    let handler = match (to, from, rounding) {
        _ if inst.has("sat") || inst.has("satfinite") => None,
        (T::F32, T::F16, _) => Some(d.handler::<WidenHalf<F16>>()),
        (T::F32, T::Bf16, _) if !inst.has("ftz") => Some(d.handler::<WidenHalf<Bf16>>()),
        (T::F64, T::F32, _) if !inst.has("ftz") => Some(d.handler::<Widen32>()),
        (T::F32, T::F64, Rounding::Nearest) if !inst.has("ftz") => Some(d.handler::<Narrow64>()),
        // A number that `.ftz` would flush is zero in `.f16` anyway.
        (T::F16, T::F32, Rounding::Nearest) if is_relu => Some(d.handler::<NarrowHalfRelu<F16>>()),
        (T::F16, T::F32, Rounding::Nearest) => Some(d.handler::<NarrowHalf<F16>>()),
        (T::Bf16, T::F32, Rounding::Nearest) if inst.has("ftz") => None,
        (T::Bf16, T::F32, Rounding::Nearest) if is_relu => Some(d.handler::<NarrowHalfRelu<Bf16>>()),
        (T::Bf16, T::F32, Rounding::Nearest) => Some(d.handler::<NarrowHalf<Bf16>>()),
        (T::Tf32, T::F32, Rounding::NearestAway) if !is_relu => Some(d.handler::<NearestAwayTf32>()),
        _ => None,
    };
    match (to, from) {
        (T::Tf32, T::F32) if !inst.has("ftz") && !inst.has("sat") => {}
        (T::Tf32, _) => return Err(d.invalid(inst, ".tf32 comes from .f32, without '.ftz' and '.sat'")),
        _ => {}
    }
    match handler {
        Some(handler) => emit(d, inst, handler, to, from, 0),
        None => emit_general(d, inst, rounding, to, from),
    }
}

fn decode_same_type(d: &mut Decoder, inst: &Instruction, ty: T) -> Result<(), Error> {
    d.expect_modifiers(inst, &["rni", "rzi", "rmi", "rpi", "ftz", "sat"])?;
    let handler = match integer_rounding(d, inst)? {
        Some(rounding) => integral(d, rounding, ty),
        None => same_type::<Unrounded>(d, ty),
    };
    emit(d, inst, handler, ty, ty, flags(inst))
}

const _: () = assert!(NAN64 & QUIET64 != 0, "widening uses the exponent and quiet bit of the default NaN");
