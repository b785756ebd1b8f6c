//! `abs`, `neg`, `copysign` and `testp`: operations on bits.
//!
//! The ISA leaves the NaN of `abs` and `neg` open, but for `abs.f64`, which passes a NaN through
//! unchanged. Here it is the canonical one, and `neg.f64` inverts the sign of a NaN.

use std::marker::PhantomData;

use warpfold_ptx::{Instruction, Opcode, ScalarType as T};

use super::finish::{NAN16, NAN32};
use super::lanes::{halves, lanes};
use super::one_of;
use crate::Error;
use crate::decode::Decoder;
use crate::exec::machine::Machine;
use crate::exec::op::{Handler, LaneOp, Op, map1, map2, test2};

/// `abs` or `neg`.
trait Which: 'static {
    /// Bits that are cleared.
    const CLEAR: bool;
}
struct Abs;
impl Which for Abs {
    const CLEAR: bool = true;
}
struct Neg;
impl Which for Neg {
    const CLEAR: bool = false;
}

struct Sign32<W, const FTZ: bool>(PhantomData<W>);
impl<W: Which, const FTZ: bool> LaneOp for Sign32<W, FTZ> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operand widths.
        unsafe {
            map1::<u32, u32>(m, op, mask, |a| {
                let magnitude = a & 0x7fff_ffff;
                let sign = if W::CLEAR { 0 } else { !a & 0x8000_0000 };
                let kept = if FTZ && magnitude < 0x0080_0000 { 0 } else { magnitude };
                if magnitude > 0x7f80_0000 { NAN32 } else { sign | kept }
            });
        }
    }
}

struct Sign64<W>(PhantomData<W>);
impl<W: Which> LaneOp for Sign64<W> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        const SIGN: u64 = 1 << 63;
        // SAFETY: the decoder checked the operand widths.
        unsafe {
            map1::<u64, u64>(m, op, mask, |a| {
                let is_nan = a & !SIGN > 0x7ff0_0000_0000_0000;
                match (W::CLEAR, is_nan) {
                    (true, true) => a,
                    (true, false) => a & !SIGN,
                    (false, _) => a ^ SIGN,
                }
            });
        }
    }
}

struct Sign16<W, const INFINITY: u16, const PACKED: bool, const FTZ: bool>(PhantomData<W>);
impl<W: Which, const INFINITY: u16, const PACKED: bool, const FTZ: bool> LaneOp for Sign16<W, INFINITY, PACKED, FTZ> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operand widths.
        unsafe {
            lanes!(m, op, mask, |a: u32| -> u32 {
                halves!(PACKED, |x = a| {
                    let magnitude = x & 0x7fff;
                    let sign = if W::CLEAR { 0 } else { !x & 0x8000 };
                    let kept = if FTZ && magnitude & INFINITY == 0 { 0 } else { magnitude };
                    if magnitude > INFINITY { NAN16 } else { sign | kept }
                })
            });
        }
    }
}

struct CopySign32;
impl LaneOp for CopySign32 {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operand widths.
        unsafe { map2::<u32, u32, u32>(m, op, mask, |a, b| a & 0x8000_0000 | b & 0x7fff_ffff) }
    }
}

struct CopySign64;
impl LaneOp for CopySign64 {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operand widths.
        unsafe { map2::<u64, u64, u64>(m, op, mask, |a, b| a & 1 << 63 | b & !(1 << 63)) }
    }
}

macro_rules! test {
    ($($name:ident = |$magnitude:ident, $infinity:ident, $normal:ident| $holds:expr;)*) => {$(
        /// A property of a magnitude, given those of infinity and of the smallest normal number.
        struct $name<const WIDE: bool>;
        impl<const WIDE: bool> LaneOp for $name<WIDE> {
            #[inline(always)]
            unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
                let holds = |$magnitude: u64, $infinity: u64, $normal: u64| -> bool { $holds };
                // SAFETY: the decoder checked the operand widths, and gave the operand twice.
                unsafe {
                    let lanes = if WIDE {
                        test2::<u64, u64>(m, op, |a, _| holds(a & !(1 << 63), 0x7ff << 52, 1 << 52))
                    } else {
                        test2::<u32, u32>(m, op, |a, _| holds(u64::from(a & 0x7fff_ffff), 0xff << 23, 1 << 23))
                    };
                    m.set_predicate(op.dst, lanes, mask);
                }
            }
        }
    )*};
}

test! {
    Finite = |magnitude, infinity, _normal| magnitude < infinity;
    Infinite = |magnitude, infinity, _normal| magnitude == infinity;
    IsNumber = |magnitude, infinity, _normal| magnitude <= infinity;
    NotANumber = |magnitude, infinity, _normal| magnitude > infinity;
    // "As a special case, positive and negative zero are considered normal numbers."
    Normal = |magnitude, infinity, normal| magnitude < infinity && (magnitude >= normal || magnitude == 0);
    Subnormal = |magnitude, _infinity, normal| magnitude < normal && magnitude != 0;
}

/// Decodes `abs`, `neg`, `copysign` and `testp`.
pub(super) fn decode(d: &mut Decoder, inst: &Instruction, ty: T) -> Result<(), Error> {
    let ftz = inst.has("ftz");
    match inst.opcode {
        Opcode::Testp => return decode_test(d, inst, ty),
        Opcode::Copysign => {
            d.expect_modifiers(inst, &[])?;
            return match ty {
                T::F32 => d.emit3(inst, d.handler::<CopySign32>(), ty, ty, ty),
                T::F64 => d.emit3(inst, d.handler::<CopySign64>(), ty, ty, ty),
                _ => Err(d.invalid(inst, format!("not defined for .{}", ty.name()))),
            };
        }
        _ => d.expect_modifiers(inst, if matches!(ty, T::F32 | T::F16 | T::F16x2) { &["ftz"] } else { &[] })?,
    }
    let handler = if inst.opcode == Opcode::Abs { handler::<Abs>(d, ty, ftz) } else { handler::<Neg>(d, ty, ftz) };
    match handler {
        Some(handler) => d.emit2(inst, handler, ty, ty),
        None => Err(d.unsupported(inst, format!("not defined for .{}", ty.name()))),
    }
}

fn handler<W: Which>(d: &Decoder, ty: T, ftz: bool) -> Option<Handler> {
    Some(match (ty, ftz) {
        (T::F32, false) => d.handler::<Sign32<W, false>>(),
        (T::F32, true) => d.handler::<Sign32<W, true>>(),
        (T::F64, _) => d.handler::<Sign64<W>>(),
        (T::F16, false) => d.handler::<Sign16<W, 0x7c00, false, false>>(),
        (T::F16, true) => d.handler::<Sign16<W, 0x7c00, false, true>>(),
        (T::F16x2, false) => d.handler::<Sign16<W, 0x7c00, true, false>>(),
        (T::F16x2, true) => d.handler::<Sign16<W, 0x7c00, true, true>>(),
        (T::Bf16, _) => d.handler::<Sign16<W, 0x7f80, false, false>>(),
        (T::Bf16x2, _) => d.handler::<Sign16<W, 0x7f80, true, false>>(),
        _ => return None,
    })
}

fn decode_test(d: &mut Decoder, inst: &Instruction, ty: T) -> Result<(), Error> {
    d.expect_operands(inst, 2)?;
    let properties = ["finite", "infinite", "number", "notanumber", "normal", "subnormal"];
    d.expect_modifiers(inst, &properties)?;
    let property = one_of(d, inst, &properties.map(|p| (p, p)))?;
    let handler = match (ty, property) {
        (T::F32, Some("finite")) => d.handler::<Finite<false>>(),
        (T::F32, Some("infinite")) => d.handler::<Infinite<false>>(),
        (T::F32, Some("number")) => d.handler::<IsNumber<false>>(),
        (T::F32, Some("notanumber")) => d.handler::<NotANumber<false>>(),
        (T::F32, Some("normal")) => d.handler::<Normal<false>>(),
        (T::F32, Some("subnormal")) => d.handler::<Subnormal<false>>(),
        (T::F64, Some("finite")) => d.handler::<Finite<true>>(),
        (T::F64, Some("infinite")) => d.handler::<Infinite<true>>(),
        (T::F64, Some("number")) => d.handler::<IsNumber<true>>(),
        (T::F64, Some("notanumber")) => d.handler::<NotANumber<true>>(),
        (T::F64, Some("normal")) => d.handler::<Normal<true>>(),
        (T::F64, Some("subnormal")) => d.handler::<Subnormal<true>>(),
        _ => return Err(d.invalid(inst, "a property of .f32 or .f64 is needed")),
    };
    let a = d.src(inst, 1, ty)?;
    let dst = d.predicate_destination(inst, d.operand(inst, 0)?)?;
    d.push(Op { dst, a, b: a, ..Op::new(handler) });
    Ok(())
}
