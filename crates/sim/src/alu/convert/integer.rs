//! Conversions between integers, with or without `.sat`, and the extension of narrow signed
//! results.

use std::marker::PhantomData;

use warpfold_ptx::{Instruction, ScalarType as T};

use crate::Error;
use crate::alu::float::lanes::lanes;
use crate::decode::Decoder;
use crate::exec::machine::Machine;
use crate::exec::op::{Handler, LaneOp, Op, map1};
use crate::exec::row::Lane;

/// An integer type.
pub(super) trait Integer: Lane {
    /// True if every value fits `i64`.
    const FITS_I64: bool;
    /// The smallest value, as far as `i64` goes.
    const MIN: i64;
    /// The largest value, as far as `i64` goes.
    const MAX: i64;
    /// Extended to 64 bits.
    fn widen(self) -> i64;
    /// The low bits.
    fn cut(wide: i64) -> Self;
    /// The nearest `f32`.
    fn to_f32(self) -> f32;
    /// The nearest `f64`.
    fn to_f64(self) -> f64;
    /// Towards zero, clamped; NaN gives zero.
    fn from_f32(x: f32) -> Self;
    /// Towards zero, clamped; NaN gives zero.
    fn from_f64(x: f64) -> Self;
    /// Only the top bit set.
    fn top_bit() -> Self;
}

/// Rust's own clamping conversion, in a form that vectorises.
macro_rules! clamped {
    ($name:ident, $float:ty, $ty:ty) => {
        #[inline(always)]
        fn $name(x: $float) -> Self {
            const LOW: $float = <$ty>::MIN as $float;
            /// The largest value plus one.
            const HIGH: $float = 2.0 * (1u64 << (<$ty>::BITS - 1 - (<$ty>::MIN != 0) as u32)) as $float;
            let is_inside = (LOW..HIGH).contains(&x);
            // SAFETY: the operand is a number that, cut to an integer, lies in the type's range.
            let inside = unsafe { (if is_inside { x } else { 0.0 }).to_int_unchecked::<$ty>() };
            let outside = if x >= HIGH {
                <$ty>::MAX
            } else if x < LOW {
                <$ty>::MIN
            } else {
                0
            };
            if is_inside { inside } else { outside }
        }
    };
}

macro_rules! integers {
    ($($ty:ty, $min:expr, $max:expr;)*) => {$(
        #[allow(
            clippy::cast_possible_truncation, clippy::cast_lossless, clippy::cast_precision_loss,
            clippy::cast_possible_wrap, clippy::cast_sign_loss, clippy::unnecessary_cast, trivial_numeric_casts,
            reason = "conversions are what this is about"
        )]
        impl Integer for $ty {
            const FITS_I64: bool = <$ty>::BITS < 64 || <$ty>::MIN != 0;
            const MIN: i64 = $min;
            const MAX: i64 = $max;
            #[inline(always)]
            fn widen(self) -> i64 {
                self as i64
            }
            #[inline(always)]
            fn cut(wide: i64) -> Self {
                wide as Self
            }
            #[inline(always)]
            fn to_f32(self) -> f32 {
                self as f32
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
            }
            clamped! { from_f32, f32, $ty }
            clamped! { from_f64, f64, $ty }
            #[inline(always)]
            fn top_bit() -> Self {
                1 << (<$ty>::BITS - 1)
            }
        }
    )*};
}

integers! {
    u8, 0, u8::MAX as i64;
    u16, 0, u16::MAX as i64;
    u32, 0, u32::MAX as i64;
    u64, 0, i64::MAX;
    i8, i8::MIN as i64, i8::MAX as i64;
    i16, i16::MIN as i64, i16::MAX as i64;
    i32, i32::MIN as i64, i32::MAX as i64;
    i64, i64::MIN, i64::MAX;
}

/// Extends or cuts.
struct Cast<A, D>(PhantomData<(A, D)>);
impl<A: Integer, D: Integer> LaneOp for Cast<A, D> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operand widths.
        unsafe { map1::<A, D>(m, op, mask, |a| D::cut(a.widen())) }
    }
}

/// Clamps to the range of the destination.
struct Saturate<A, D>(PhantomData<(A, D)>);
impl<A: Integer, D: Integer> LaneOp for Saturate<A, D> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operand widths.
        unsafe {
            lanes!(m, op, mask, |a: A| -> D {
                let wide = a.widen();
                let clamped = if A::FITS_I64 {
                    wide.max(D::MIN).min(D::MAX)
                } else if D::FITS_I64 {
                    // An unsigned number of 64 bits has no lower bound to meet.
                    wide.cast_unsigned().min(D::MAX.cast_unsigned()).cast_signed()
                } else {
                    wide
                };
                D::cut(clamped)
            });
        }
    }
}

/// The handler of a generic operation for a pair of integer types, the source first.
macro_rules! for_source {
    ($d:expr, $operation:ident, $from:expr, $dst:ty) => {
        match $from {
            T::U8 => $d.handler::<$operation<u8, $dst>>(),
            T::U16 => $d.handler::<$operation<u16, $dst>>(),
            T::U32 => $d.handler::<$operation<u32, $dst>>(),
            T::U64 => $d.handler::<$operation<u64, $dst>>(),
            T::S8 => $d.handler::<$operation<i8, $dst>>(),
            T::S16 => $d.handler::<$operation<i16, $dst>>(),
            T::S32 => $d.handler::<$operation<i32, $dst>>(),
            _ => $d.handler::<$operation<i64, $dst>>(),
        }
    };
}

/// Decodes `cvt` between integers.
pub(super) fn decode(d: &mut Decoder, inst: &Instruction, to: T, from: T) -> Result<(), Error> {
    d.expect_modifiers(inst, &["sat"])?;
    d.expect_operands(inst, 2)?;
    let handler = if inst.has("sat") { saturate(d, to, from) } else { cast(d, to.bits(), from) };
    let a = d.src(inst, 1, from)?;
    emit_integer(d, inst, Op { a, ..Op::new(handler) }, to)
}

/// A cast to a number of bits: the sign of the destination does not matter.
fn cast(d: &Decoder, bits: u32, from: T) -> Handler {
    match bits {
        8 => for_source!(d, Cast, from, u8),
        16 => for_source!(d, Cast, from, u16),
        32 => for_source!(d, Cast, from, u32),
        _ => for_source!(d, Cast, from, u64),
    }
}

fn saturate(d: &Decoder, to: T, from: T) -> Handler {
    match to {
        T::U8 => for_source!(d, Saturate, from, u8),
        T::U16 => for_source!(d, Saturate, from, u16),
        T::U32 => for_source!(d, Saturate, from, u32),
        T::U64 => for_source!(d, Saturate, from, u64),
        T::S8 => for_source!(d, Saturate, from, i8),
        T::S16 => for_source!(d, Saturate, from, i16),
        T::S32 => for_source!(d, Saturate, from, i32),
        _ => for_source!(d, Saturate, from, i64),
    }
}

/// Emits an operation with an integer result of type `to` for operand 0, whose register may be
/// wider: then the result is extended, with its sign if it has one.
pub(super) fn emit_integer(d: &mut Decoder, inst: &Instruction, op: Op, to: T) -> Result<(), Error> {
    let register = d.declared_type(inst, d.operand(inst, 0)?).map_or(to.bits(), T::bits);
    if !matches!(to, T::S8 | T::S16) || register <= to.bits() {
        let dst = d.dst(inst, 0, to)?;
        d.push(Op { dst, ..op });
        return Ok(());
    }
    let temporary = d.f.temporary(to);
    d.push(Op { dst: temporary, ..op });
    let dst = d.dst(
        inst,
        0,
        match register {
            16 => T::B16,
            32 => T::B32,
            _ => T::B64,
        },
    )?;
    d.push(Op { dst, a: temporary, ..Op::new(cast(d, register, to)) });
    Ok(())
}
