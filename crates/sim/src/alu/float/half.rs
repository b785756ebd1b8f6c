//! `add`, `sub`, `mul` and `fma` of `.f16`, `.bf16` and their packed forms, and the widening and
//! narrowing of both.
//!
//! A sum or product rounded to `.f32` and then to 16 bits is rounded as if once: 24 bits are at
//! least twice 11 plus
//! 2. Near zero, sums are exact in `.f32`, and so are products, but for `.bf16` ones below half of
//!    the smallest number, which are zero either way. A fused multiply-add is first rounded to odd,
//!    which never shows in a second rounding.

use std::marker::PhantomData;

use warpfold_ptx::{Instruction, Opcode, ScalarType as T};

use super::arithmetic::{Add, Binary, Mul, Sub};
use super::exact::{Exact, ToOdd};
use super::finish::{NAN16, saturate};
use super::lanes::{halves, lanes};
use super::{FTZ, RELU, SAT, flags, one_of, rounding};
use crate::Error;
use crate::decode::Decoder;
use crate::exec::machine::Machine;
use crate::exec::op::{Handler, LaneOp, Op};

/// A 16-bit floating-point format.
pub(crate) trait Half: 'static {
    /// Bits that are zero in a subnormal number, and only there.
    const EXPONENT: u16;
    /// The same value in `.f32`; a NaN stays some NaN.
    fn widen(bits: u16) -> f32;
    /// The nearest value, ties to even; a NaN becomes the canonical one.
    fn narrow(x: f32) -> u16;
    /// The bits of a number, with a truncated magnitude; a NaN becomes the canonical one.
    fn truncate(bits: u32) -> u16;
    /// A fused multiply-add whose narrowed result is correctly rounded.
    fn fused(a: f32, b: f32, c: f32) -> f32;

    /// `.ftz`
    #[inline(always)]
    fn flush(bits: u16) -> u16 {
        if bits & Self::EXPONENT == 0 { bits & 0x8000 } else { bits }
    }
}

/// `.f16`
#[derive(Debug)]
pub(crate) struct F16;
impl Half for F16 {
    const EXPONENT: u16 = 0x7c00;

    #[inline(always)]
    fn widen(bits: u16) -> f32 {
        let sign = u32::from(bits & 0x8000) << 16;
        let shifted = u32::from(bits & 0x7fff) << 13;
        // The exponent moves from bias 15 to 127; infinity and NaN to the top; a subnormal number
        // is what its bits add to the smallest normal one.
        let normal = shifted + (112 << 23);
        let subnormal = (f32::from_bits(shifted + (113 << 23)) - f32::from_bits(113 << 23)).to_bits();
        let magnitude = match shifted >> 23 {
            0 => subnormal,
            31 => normal + (112 << 23),
            _ => normal,
        };
        f32::from_bits(sign | magnitude)
    }

    #[inline(always)]
    fn narrow(x: f32) -> u16 {
        let magnitude = narrow_magnitude::<10, 15>(x).min(0x7c00);
        if x.is_nan() { NAN16 } else { sign16(x) | magnitude }
    }

    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "at most 0x7fff")]
    fn truncate(bits: u32) -> u16 {
        let magnitude = bits & 0x7fff_ffff;
        let normal = (magnitude.wrapping_sub(112 << 23) >> 13).min(0x7c00);
        let small = (bits & 0x7f_ffff | 1 << 23) >> 126u32.saturating_sub(magnitude >> 23).min(31);
        let finite = if magnitude < 113 << 23 { small } else { normal };
        if magnitude > 0x7f80_0000 { NAN16 } else { finite as u16 | (bits >> 16) as u16 & 0x8000 }
    }

    /// The product is exact in `.f32`; the sum is made odd with the error that two-sum gives.
    #[inline(always)]
    fn fused(a: f32, b: f32, c: f32) -> f32 {
        let product = a * b;
        let sum = product + c;
        let c_part = sum - product;
        let error = (product - (sum - c_part)) + (c - c_part);
        let bits = sum.to_bits();
        // The magnitude is too short if the error points away from zero. An error of NaN (an
        // infinite sum) is none.
        let short = (error > 0.0 && sum > 0.0) || (error < 0.0 && sum < 0.0);
        let long = (error < 0.0 && sum > 0.0) || (error > 0.0 && sum < 0.0);
        let odd = bits.wrapping_add(u32::from(short)).wrapping_sub(u32::from(long));
        f32::from_bits(if bits & 1 == 0 { odd } else { bits })
    }
}

/// The sign of a number, in the top bit of 16.
#[inline(always)]
fn sign16(x: f32) -> u16 {
    if x.is_sign_negative() { 0x8000 } else { 0 }
}

/// The magnitude of the nearest number, ties to even, in a format with `bits` bits of mantissa and
/// a bias; what is beyond its largest number lies above it, also in the bits.
#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "what is beyond 16 bits was made small")]
pub(crate) fn narrow_magnitude<const MANTISSA: u32, const BIAS: u32>(x: f32) -> u16 {
    let shift = 23 - MANTISSA;
    // At 2^17 every such format has long overflowed.
    let magnitude = (x.to_bits() & 0x7fff_ffff).min(144 << 23);
    // Nearest even by adding just under half of the last bit, one more if that bit is set.
    let half = (1 << (shift - 1)) - 1 + (magnitude >> shift & 1);
    let rounded = magnitude.wrapping_sub((127 - BIAS) << 23).wrapping_add(half) >> shift;
    // Below the normal numbers, adding a number whose last bit is that of the format leaves the
    // bits at the bottom, rounded by the host.
    let anchor = (151 - BIAS - MANTISSA) << 23;
    let small = (f32::from_bits(magnitude) + f32::from_bits(anchor)).to_bits().wrapping_sub(anchor);
    if magnitude < (128 - BIAS) << 23 { small as u16 } else { rounded as u16 }
}

/// `.bf16`
#[derive(Debug)]
pub(crate) struct Bf16;
impl Half for Bf16 {
    const EXPONENT: u16 = 0x7f80;

    #[inline(always)]
    fn widen(bits: u16) -> f32 {
        f32::from_bits(u32::from(bits) << 16)
    }

    #[inline(always)]
    fn truncate(bits: u32) -> u16 {
        (bits >> 16) as u16
    }

    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "the upper half of 32 bits")]
    fn narrow(x: f32) -> u16 {
        let bits = x.to_bits();
        let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
        if x.is_nan() { NAN16 } else { rounded as u16 }
    }

    #[inline(always)]
    fn fused(a: f32, b: f32, c: f32) -> f32 {
        Exact::fused(f64::from(a), f64::from(b), f64::from(c)).round::<ToOdd>()
    }
}

/// An operand under `.ftz`, in `.f32`.
#[inline(always)]
fn operand<H: Half>(flags: i64, bits: u16) -> f32 {
    H::widen(if flags & FTZ != 0 { H::flush(bits) } else { bits })
}

/// The bits of a result under its modifiers.
#[inline(always)]
fn finished<H: Half>(flags: i64, result: f32) -> u16 {
    let bits = H::narrow(result);
    let bits = if flags & FTZ != 0 { H::flush(bits) } else { bits };
    let bits = if flags & RELU != 0 && bits > 0x7fff { 0 } else { bits };
    if flags & SAT != 0 { H::narrow(saturate(H::widen(bits))) } else { bits }
}

struct HalfBinary<H, F, const PACKED: bool, const PLAIN: bool>(PhantomData<(H, F)>);
impl<H: Half, F: Binary, const PACKED: bool, const PLAIN: bool> LaneOp for HalfBinary<H, F, PACKED, PLAIN> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        let flags = if PLAIN { 0 } else { op.imm };
        // SAFETY: the decoder checked the operand widths.
        unsafe {
            lanes!(m, op, mask, |a: u32, b: u32| -> u32 {
                halves!(PACKED, |x = a, y = b| {
                    finished::<H>(flags, F::f32(operand::<H>(flags, x), operand::<H>(flags, y)))
                })
            });
        }
    }
}

struct HalfFused<H, const PACKED: bool, const PLAIN: bool>(PhantomData<H>);
impl<H: Half, const PACKED: bool, const PLAIN: bool> LaneOp for HalfFused<H, PACKED, PLAIN> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        let flags = if PLAIN { 0 } else { op.imm };
        // SAFETY: the decoder checked the operand widths.
        unsafe {
            lanes!(m, op, mask, |a: u32, b: u32, c: u32| -> u32 {
                halves!(PACKED, |x = a, y = b, z = c| {
                    let (x, y, z) = (operand::<H>(flags, x), operand::<H>(flags, y), operand::<H>(flags, z));
                    finished::<H>(flags, H::fused(x, y, z))
                })
            });
        }
    }
}

/// Decodes `add`, `sub`, `mul` and `fma` of the 16-bit formats.
pub(super) fn decode(d: &mut Decoder, inst: &Instruction, ty: T) -> Result<(), Error> {
    let is_f16 = matches!(ty, T::F16 | T::F16x2);
    let is_fused = inst.opcode == Opcode::Fma;
    d.expect_modifiers(
        inst,
        match (is_f16, is_fused) {
            (true, true) => &["rn", "ftz", "sat", "relu"],
            (true, false) => &["rn", "ftz", "sat"],
            (false, true) => &["rn", "relu"],
            (false, false) => &["rn"],
        },
    )?;
    if is_fused && rounding(d, inst)?.is_none() {
        return Err(d.invalid(inst, "a rounding modifier is needed"));
    }
    one_of(d, inst, &[("sat", ()), ("relu", ())])?;
    let flags = flags(inst);
    let packed = matches!(ty, T::F16x2 | T::Bf16x2);
    let handler = match (inst.opcode, is_f16) {
        (Opcode::Add, true) => binary::<F16, Add>(d, packed, flags),
        (Opcode::Sub, true) => binary::<F16, Sub>(d, packed, flags),
        (Opcode::Mul, true) => binary::<F16, Mul>(d, packed, flags),
        (Opcode::Add, false) => binary::<Bf16, Add>(d, packed, flags),
        (Opcode::Sub, false) => binary::<Bf16, Sub>(d, packed, flags),
        (Opcode::Mul, false) => binary::<Bf16, Mul>(d, packed, flags),
        (_, true) => fused::<F16>(d, packed, flags),
        (_, false) => fused::<Bf16>(d, packed, flags),
    };
    d.expect_operands(inst, if is_fused { 4 } else { 3 })?;
    let (a, b) = (d.src(inst, 1, ty)?, d.src(inst, 2, ty)?);
    let c = if is_fused { d.src(inst, 3, ty)? } else { crate::exec::op::NONE };
    let dst = d.dst(inst, 0, ty)?;
    d.push(Op { dst, a, b, c, imm: flags, ..Op::new(handler) });
    Ok(())
}

fn binary<H: Half, F: Binary>(d: &Decoder, packed: bool, flags: i64) -> Handler {
    match (packed, flags) {
        (false, 0) => d.handler::<HalfBinary<H, F, false, true>>(),
        (false, _) => d.handler::<HalfBinary<H, F, false, false>>(),
        (true, 0) => d.handler::<HalfBinary<H, F, true, true>>(),
        (true, _) => d.handler::<HalfBinary<H, F, true, false>>(),
    }
}

fn fused<H: Half>(d: &Decoder, packed: bool, flags: i64) -> Handler {
    match (packed, flags) {
        (false, 0) => d.handler::<HalfFused<H, false, true>>(),
        (false, _) => d.handler::<HalfFused<H, false, false>>(),
        (true, 0) => d.handler::<HalfFused<H, true, true>>(),
        (true, _) => d.handler::<HalfFused<H, true, false>>(),
    }
}
