//! Conversions of pairs: to `.f16x2`, `.bf16x2`, `.e4m3x2` and `.e5m2x2`, and from the 8-bit formats to `.f16x2`.
//!
//! Of two operands the first goes to the upper half.

use std::marker::PhantomData;

use warpfold_ptx::{Instruction, ScalarType as T};

use super::float_rounding;
use super::general::Conversion;
use crate::Error;
use crate::alu::float::finish::NAN16;
use crate::alu::float::half::{Bf16, F16, Half};
use crate::alu::float::soft::Rounding;
use crate::decode::Decoder;
use crate::exec::machine::Machine;
use crate::exec::op::{Handler, LaneOp, NONE, Op, map1, map2};

/// Two `.f32` to a pair, to nearest.
struct Pair<H, const RELU: bool>(PhantomData<H>);
impl<H: Half, const RELU: bool> LaneOp for Pair<H, RELU> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        let narrow = |x: f32| {
            let bits = H::narrow(x);
            u32::from(if RELU && bits > 0x7fff { 0 } else { bits })
        };
        // SAFETY: the decoder checked the operand widths.
        unsafe { map2::<f32, f32, u32>(m, op, mask, |a, b| narrow(a) << 16 | narrow(b)) }
    }
}

/// A pair of 8-bit numbers to `.f16x2`: exact.
struct FromBytes<const E4M3: bool, const RELU: bool>;
impl<const E4M3: bool, const RELU: bool> LaneOp for FromBytes<E4M3, RELU> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        let widen = |byte: u32| {
            #[allow(clippy::cast_possible_truncation, reason = "a byte")]
            let byte = byte as u16 & 0xff;
            let (sign, magnitude) = ((byte & 0x80) << 8, byte & 0x7f);
            let bits = if E4M3 {
                // The exponent's bias grows from 7 to 15.
                let scaled = F16::narrow(F16::widen(magnitude << 7) * 256.0);
                if magnitude == 0x7f { NAN16 } else { sign | scaled }
            } else if magnitude > 0x7c {
                NAN16
            } else {
                sign | magnitude << 8
            };
            u32::from(if RELU && bits > 0x7fff { 0 } else { bits })
        };
        // SAFETY: the decoder checked the operand widths.
        unsafe { map1::<u32, u32>(m, op, mask, |a| widen(a >> 8) << 16 | widen(a)) }
    }
}

/// Two `.f32` to a pair by a [`Conversion`] to its element.
///
/// # Safety
/// As for [`Handler`]; `op.imm` is the conversion's code.
unsafe fn pair_in_general(m: &mut Machine, op: &Op, mask: u32) {
    let conversion = Conversion::from_code(op.imm);
    let bits = conversion.result_bits();
    // SAFETY: passed on.
    unsafe {
        map2::<u32, u32, u32>(m, op, mask, |a, b| conversion.apply32(a) << bits | conversion.apply32(b));
    }
}

/// A pair of halves to a pair of bytes by a [`Conversion`] between the elements.
///
/// # Safety
/// As for [`pair_in_general`].
unsafe fn halves_in_general(m: &mut Machine, op: &Op, mask: u32) {
    let conversion = Conversion::from_code(op.imm);
    let bits = conversion.result_bits();
    // SAFETY: passed on.
    unsafe { map1::<u32, u32>(m, op, mask, |a| conversion.apply32(a >> 16) << bits | conversion.apply32(a)) }
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
    let conversion = Conversion::new(inst, rounding, element(to), element(from));
    let is_plain = rounding == Rounding::Nearest && !inst.has("satfinite");
    let handler: Handler = match (to, from, is_relu) {
        (T::F16x2, T::F32, false) if is_plain => d.handler::<Pair<F16, false>>(),
        (T::F16x2, T::F32, true) if is_plain => d.handler::<Pair<F16, true>>(),
        (T::Bf16x2, T::F32, false) if is_plain => d.handler::<Pair<Bf16, false>>(),
        (T::Bf16x2, T::F32, true) if is_plain => d.handler::<Pair<Bf16, true>>(),
        (_, T::F32, _) => pair_in_general,
        (_, T::E4m3x2, false) => d.handler::<FromBytes<true, false>>(),
        (_, T::E4m3x2, true) => d.handler::<FromBytes<true, true>>(),
        (_, T::E5m2x2, false) => d.handler::<FromBytes<false, false>>(),
        (_, T::E5m2x2, true) => d.handler::<FromBytes<false, true>>(),
        _ => halves_in_general,
    };
    let takes_two = from == T::F32;
    d.expect_operands(inst, if takes_two { 3 } else { 2 })?;
    let a = d.src(inst, 1, from)?;
    let b = if takes_two { d.src(inst, 2, from)? } else { NONE };
    let dst = d.dst(inst, 0, to)?;
    d.push(Op { dst, a, b, imm: conversion.code(), ..Op::new(handler) });
    Ok(())
}

/// The type of one number of a pair.
fn element(ty: T) -> T {
    match ty {
        T::F16x2 => T::F16,
        T::Bf16x2 => T::Bf16,
        T::E4m3x2 => T::E4m3,
        T::E5m2x2 => T::E5m2,
        other => other,
    }
}
