//! Conversions of pairs: to `.f16x2`, `.bf16x2`, `.e4m3x2` and `.e5m2x2`, and from the 8-bit
//! formats to `.f16x2`.
//!
//! Of two operands the first goes to the upper half.

use std::marker::PhantomData;

use warpfold_ptx::{Instruction, ScalarType as T};

use super::float_rounding;
use super::general::Conversion;
use crate::Error;
use crate::alu::float::finish::NAN16;
use crate::alu::float::half::{Bf16, F16, Half, narrow_magnitude};
use crate::alu::float::lanes::lanes;
use crate::alu::float::soft::Rounding;
use crate::decode::Decoder;
use crate::exec::machine::Machine;
use crate::exec::op::{Handler, LaneOp, NONE, Op, map2};

/// `.relu` on the bits of 16.
#[inline(always)]
fn positive(relu: bool, bits: u16) -> u16 {
    if relu && bits > 0x7fff { 0 } else { bits }
}

/// Two `.f32` to a pair of halves, to nearest.
struct Pair<H, const RELU: bool>(PhantomData<H>);
impl<H: Half, const RELU: bool> LaneOp for Pair<H, RELU> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operand widths.
        unsafe {
            lanes!(m, op, mask, |a: f32, b: f32| -> u32 {
                let (high, low) = (positive(RELU, H::narrow(a)), positive(RELU, H::narrow(b)));
                u32::from(high) << 16 | u32::from(low)
            });
        }
    }
}

/// An 8-bit format.
trait Byte: 'static {
    /// The same value, by its bits, as a `.f16`.
    fn widen(byte: u16) -> u16;
    /// The magnitude of the nearest value, `.satfinite`; not for NaN.
    fn narrow(x: f32) -> u16;
}

/// `.e4m3`
struct E4m3;
impl Byte for E4m3 {
    #[inline(always)]
    fn widen(byte: u16) -> u16 {
        let magnitude = byte & 0x7f;
        // The exponent's bias grows from 7 to 15.
        let scaled = F16::narrow(F16::widen(magnitude << 7) * 256.0);
        if magnitude == 0x7f { NAN16 } else { (byte & 0x80) << 8 | scaled }
    }
    #[inline(always)]
    fn narrow(x: f32) -> u16 {
        narrow_magnitude::<3, 7>(x).min(0x7e)
    }
}

/// `.e5m2`: the upper half of a `.f16`.
struct E5m2;
impl Byte for E5m2 {
    #[inline(always)]
    fn widen(byte: u16) -> u16 {
        if byte & 0x7f > 0x7c { NAN16 } else { byte << 8 }
    }
    #[inline(always)]
    fn narrow(x: f32) -> u16 {
        narrow_magnitude::<2, 15>(x).min(0x7b)
    }
}

/// The bits of the nearest value of an 8-bit format.
#[inline(always)]
fn byte<B: Byte>(relu: bool, x: f32) -> u16 {
    let magnitude = B::narrow(x);
    let negative = if relu { 0 } else { magnitude | 0x80 };
    let number = if x.is_sign_negative() { negative } else { magnitude };
    if x.is_nan() { 0x7f } else { number }
}

/// A pair of 8-bit numbers to `.f16x2`: exact.
struct FromBytes<B, const RELU: bool>(PhantomData<B>);
impl<B: Byte, const RELU: bool> LaneOp for FromBytes<B, RELU> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operand widths.
        unsafe {
            lanes!(m, op, mask, |a: u16| -> u32 {
                let (high, low) = (positive(RELU, B::widen(a >> 8)), positive(RELU, B::widen(a & 0xff)));
                u32::from(high) << 16 | u32::from(low)
            });
        }
    }
}

/// Two `.f32` to a pair of 8-bit numbers.
struct ToBytes<B, const RELU: bool>(PhantomData<B>);
impl<B: Byte, const RELU: bool> LaneOp for ToBytes<B, RELU> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operand widths.
        unsafe {
            lanes!(m, op, mask, |a: f32, b: f32| -> u16 { byte::<B>(RELU, a) << 8 | byte::<B>(RELU, b) });
        }
    }
}

/// A pair of `.f16` to a pair of 8-bit numbers.
struct HalvesToBytes<B, const RELU: bool>(PhantomData<B>);
impl<B: Byte, const RELU: bool> LaneOp for HalvesToBytes<B, RELU> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operand widths.
        unsafe {
            lanes!(m, op, mask, |a: u32| -> u16 {
                #[allow(clippy::cast_possible_truncation, reason = "halves are taken")]
                let (high, low) = (F16::widen((a >> 16) as u16), F16::widen(a as u16));
                byte::<B>(RELU, high) << 8 | byte::<B>(RELU, low)
            });
        }
    }
}

/// Two `.f32` to a pair of halves by a [`Conversion`] to one of them.
///
/// # Safety
/// As for [`Handler`]; `op.imm` is the conversion's code.
unsafe fn pair_in_general(m: &mut Machine, op: &Op, mask: u32) {
    let conversion = Conversion::from_code(op.imm);
    // SAFETY: passed on.
    unsafe { map2::<u32, u32, u32>(m, op, mask, |a, b| conversion.apply32(a) << 16 | conversion.apply32(b)) }
}

/// Decodes the packed forms of `cvt`.
pub(super) fn decode(d: &mut Decoder, inst: &Instruction, to: T, from: T) -> Result<(), Error> {
    let is_relu = inst.has("relu");
    let to_bytes = matches!(to, T::E4m3x2 | T::E5m2x2);
    let known: &[&str] = match (to, from) {
        (T::F16x2 | T::Bf16x2, T::F32) => &["rn", "rz", "relu", "satfinite"],
        (T::E4m3x2 | T::E5m2x2, T::F32 | T::F16x2) => &["rn", "relu", "satfinite"],
        (T::F16x2, T::E4m3x2 | T::E5m2x2) => &["rn", "relu"],
        _ => return Err(d.unsupported(inst, format!("no conversion from .{} to .{}", from.name(), to.name()))),
    };
    d.expect_modifiers(inst, known)?;
    let rounding = float_rounding(d, inst)?;
    if to_bytes && !inst.has("satfinite") {
        return Err(d.invalid(inst, "'.satfinite' is needed"));
    }
    // Only the halves have roundings and overflows to choose from.
    let is_plain = to_bytes || (rounding == Rounding::Nearest && !inst.has("satfinite"));
    let element = if to == T::F16x2 { T::F16 } else { T::Bf16 };
    let conversion = Conversion::new(inst, rounding, element, from);
    let handler: Handler = match (to, from, is_relu) {
        (T::F16x2, T::F32, false) if is_plain => d.handler::<Pair<F16, false>>(),
        (T::F16x2, T::F32, true) if is_plain => d.handler::<Pair<F16, true>>(),
        (T::Bf16x2, T::F32, false) if is_plain => d.handler::<Pair<Bf16, false>>(),
        (T::Bf16x2, T::F32, true) if is_plain => d.handler::<Pair<Bf16, true>>(),
        (T::E4m3x2, T::F32, false) => d.handler::<ToBytes<E4m3, false>>(),
        (T::E4m3x2, T::F32, true) => d.handler::<ToBytes<E4m3, true>>(),
        (T::E5m2x2, T::F32, false) => d.handler::<ToBytes<E5m2, false>>(),
        (T::E5m2x2, T::F32, true) => d.handler::<ToBytes<E5m2, true>>(),
        (T::E4m3x2, _, false) => d.handler::<HalvesToBytes<E4m3, false>>(),
        (T::E4m3x2, _, true) => d.handler::<HalvesToBytes<E4m3, true>>(),
        (T::E5m2x2, _, false) => d.handler::<HalvesToBytes<E5m2, false>>(),
        (T::E5m2x2, _, true) => d.handler::<HalvesToBytes<E5m2, true>>(),
        (_, T::E4m3x2, false) => d.handler::<FromBytes<E4m3, false>>(),
        (_, T::E4m3x2, true) => d.handler::<FromBytes<E4m3, true>>(),
        (_, T::E5m2x2, false) => d.handler::<FromBytes<E5m2, false>>(),
        (_, T::E5m2x2, true) => d.handler::<FromBytes<E5m2, true>>(),
        _ => pair_in_general,
    };
    let takes_two = from == T::F32;
    d.expect_operands(inst, if takes_two { 3 } else { 2 })?;
    let a = d.src(inst, 1, from)?;
    let b = if takes_two { d.src(inst, 2, from)? } else { NONE };
    let dst = d.dst(inst, 0, to)?;
    d.push(Op { dst, a, b, imm: conversion.code(), ..Op::new(handler) });
    Ok(())
}
