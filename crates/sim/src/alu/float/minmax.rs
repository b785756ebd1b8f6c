//! `min` and `max`, with `.NaN` and `.xorsign.abs`.
//!
//! The order of the ISA (-0 below +0) is the order of the bits once those of negative numbers are
//! inverted, so that one comparison of integers serves every format.

use std::marker::PhantomData;

use warpfold_ptx::{Instruction, Opcode, ScalarType as T};

use super::finish::{NAN16, NAN32, NAN64, QUIET64};
use super::lanes::{halves, lanes};
use crate::Error;
use crate::decode::Decoder;
use crate::exec::machine::Machine;
use crate::exec::op::{Handler, LaneOp, Op};

/// `.ftz`, `.NaN` and `.xorsign.abs` in `Op::imm`.
const FLUSH: i64 = 1;
const NAN: i64 = 2;
const XORSIGN: i64 = 4;

macro_rules! order {
    ($name:ident, $bits:ty, $signed:ty, infinity: $infinity:literal, subnormal: $subnormal:literal, nan: |$x:ident| $nan:expr) => {
        /// The minimum or maximum of two numbers given by their bits.
        #[inline(always)]
        fn $name(is_max: bool, flags: i64, a: $bits, b: $bits) -> $bits {
            const SIGN: $bits = 1 << (<$bits>::BITS - 1);
            const MAGNITUDE: $bits = !SIGN;
            let is_xorsign = flags & XORSIGN != 0;
            let a_kept = if flags & FLUSH != 0 && a & MAGNITUDE <= $subnormal { a & SIGN } else { a };
            let b_kept = if flags & FLUSH != 0 && b & MAGNITUDE <= $subnormal { b & SIGN } else { b };
            let x = if is_xorsign { a_kept & MAGNITUDE } else { a_kept };
            let y = if is_xorsign { b_kept & MAGNITUDE } else { b_kept };
            let (x_signed, y_signed) = (x.cast_signed(), y.cast_signed());
            let x_key = x_signed ^ ((x_signed >> (<$signed>::BITS - 1)) & <$signed>::MAX);
            let y_key = y_signed ^ ((y_signed >> (<$signed>::BITS - 1)) & <$signed>::MAX);
            let x_first = if is_max { x_key > y_key } else { x_key < y_key };
            let (a_nan, b_nan) = (a & MAGNITUDE > $infinity, b & MAGNITUDE > $infinity);
            let number = if b_nan | (x_first & !a_nan) { x } else { y };
            let number = if is_xorsign { number & MAGNITUDE | (a ^ b) & SIGN } else { number };
            let $x = if a_nan { a } else { b };
            let nan: $bits = $nan;
            if (a_nan & b_nan) | ((flags & NAN != 0) & (a_nan | b_nan)) { nan } else { number }
        }
    };
}

order!(order16, u16, i16, infinity: 0x7c00, subnormal: 0x03ff, nan: |_nan| NAN16);
order!(order_bf16, u16, i16, infinity: 0x7f80, subnormal: 0x007f, nan: |_nan| NAN16);
order!(order32, u32, i32, infinity: 0x7f80_0000, subnormal: 0x007f_ffff, nan: |_nan| NAN32);
order!(order64, u64, i64, infinity: 0x7ff0_0000_0000_0000, subnormal: 0x000f_ffff_ffff_ffff, nan: |x| x | QUIET64);

const _: () = assert!(NAN64 & QUIET64 != 0, "a NaN of .f64 that is propagated is quiet, as the default one is");

/// `min` or `max`.
trait Which: 'static {
    const IS_MAX: bool;
}
struct Min;
impl Which for Min {
    const IS_MAX: bool = false;
}
struct Max;
impl Which for Max {
    const IS_MAX: bool = true;
}

struct MinMax32<W, const PLAIN: bool>(PhantomData<W>);
impl<W: Which, const PLAIN: bool> LaneOp for MinMax32<W, PLAIN> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        let flags = if PLAIN { 0 } else { op.imm };
        // SAFETY: the decoder checked the operand widths.
        unsafe {
            lanes!(m, op, mask, |a: u32, b: u32| -> u32 { order32(W::IS_MAX, flags, a, b) });
        }
    }
}

struct MinMax64<W>(PhantomData<W>);
impl<W: Which> LaneOp for MinMax64<W> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operand widths.
        unsafe {
            lanes!(m, op, mask, |a: u64, b: u64| -> u64 { order64(W::IS_MAX, 0, a, b) });
        }
    }
}

struct MinMax16<W, const BF16: bool, const PACKED: bool>(PhantomData<W>);
impl<W: Which, const BF16: bool, const PACKED: bool> LaneOp for MinMax16<W, BF16, PACKED> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        let flags = op.imm;
        // SAFETY: the decoder checked the operand widths.
        unsafe {
            lanes!(m, op, mask, |a: u32, b: u32| -> u32 {
                halves!(PACKED, |x = a, y = b| {
                    if BF16 { order_bf16(W::IS_MAX, flags, x, y) } else { order16(W::IS_MAX, flags, x, y) }
                })
            });
        }
    }
}

/// Decodes `min` and `max`.
pub(super) fn decode(d: &mut Decoder, inst: &Instruction, ty: T) -> Result<(), Error> {
    if inst.operands.len() == 4 {
        return Err(d.unsupported(inst, "three inputs need sm_100"));
    }
    d.expect_modifiers(
        inst,
        match ty {
            T::F64 => &[],
            T::Bf16 | T::Bf16x2 => &["NaN", "xorsign", "abs"],
            _ => &["ftz", "NaN", "xorsign", "abs"],
        },
    )?;
    if inst.has("xorsign") != inst.has("abs") {
        return Err(d.invalid(inst, "'.xorsign' and '.abs' go together"));
    }
    let flag = |name, bit| if inst.has(name) { bit } else { 0 };
    let flags = flag("ftz", FLUSH) | flag("NaN", NAN) | flag("xorsign", XORSIGN);
    let handler = if inst.opcode == Opcode::Max { handler::<Max>(d, ty, flags) } else { handler::<Min>(d, ty, flags) };
    let Some(handler) = handler else {
        return Err(d.unsupported(inst, format!("not defined for .{}", ty.name())));
    };
    d.expect_operands(inst, 3)?;
    let (a, b) = (d.src(inst, 1, ty)?, d.src(inst, 2, ty)?);
    let dst = d.dst(inst, 0, ty)?;
    d.push(Op { dst, a, b, imm: flags, ..Op::new(handler) });
    Ok(())
}

fn handler<W: Which>(d: &Decoder, ty: T, flags: i64) -> Option<Handler> {
    Some(match ty {
        T::F32 if flags == 0 => d.handler::<MinMax32<W, true>>(),
        T::F32 => d.handler::<MinMax32<W, false>>(),
        T::F64 => d.handler::<MinMax64<W>>(),
        T::F16 => d.handler::<MinMax16<W, false, false>>(),
        T::F16x2 => d.handler::<MinMax16<W, false, true>>(),
        T::Bf16 => d.handler::<MinMax16<W, true, false>>(),
        T::Bf16x2 => d.handler::<MinMax16<W, true, true>>(),
        _ => return None,
    })
}
