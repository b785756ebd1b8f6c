//! `min` and `max`, with `.NaN` and `.xorsign.abs`.
//!
//! The order of the ISA (-0 below +0) is the order of the bits once those of negative numbers are inverted, so
//! that one comparison of integers serves every format.

use std::marker::PhantomData;

use warpfold_ptx::{Instruction, Opcode, ScalarType as T};

use super::finish::{NAN16, NAN32, NAN64, QUIET64};
use super::half::halves;
use crate::Error;
use crate::decode::Decoder;
use crate::exec::machine::Machine;
use crate::exec::op::{Handler, LaneOp, Op, map2};

/// `.ftz`, `.NaN` and `.xorsign.abs` in `Op::imm`.
const FLUSH: i64 = 1;
const NAN: i64 = 2;
const XORSIGN: i64 = 4;

macro_rules! order {
    ($name:ident, $bits:ty, $signed:ty, infinity: $infinity:literal, subnormal: $subnormal:literal, nan: $nan:expr) => {
        /// The minimum or maximum of two numbers given by their bits.
        #[inline(always)]
        fn $name(is_max: bool, flags: i64, [a, b]: [$bits; 2]) -> $bits {
            const SIGN: $bits = 1 << (<$bits>::BITS - 1);
            let is_nan = |x: $bits| x & !SIGN > $infinity;
            let flush = |x: $bits| if flags & FLUSH != 0 && x & !SIGN <= $subnormal { x & SIGN } else { x };
            let magnitude = |x: $bits| if flags & XORSIGN != 0 { x & !SIGN } else { x };
            let key = |x: $bits| {
                let x = x.cast_signed();
                x ^ ((x >> (<$signed>::BITS - 1)) & <$signed>::MAX)
            };
            let sign = (a ^ b) & SIGN;
            let (x, y) = (magnitude(flush(a)), magnitude(flush(b)));
            let x_first = if is_max { key(x) > key(y) } else { key(x) < key(y) };
            let number = if is_nan(y) || (x_first && !is_nan(x)) { x } else { y };
            let number = if flags & XORSIGN != 0 { number & !SIGN | sign } else { number };
            let nan_wins = (is_nan(a) && is_nan(b)) || (flags & NAN != 0 && (is_nan(a) || is_nan(b)));
            let nan: $bits = $nan(if is_nan(a) { a } else { b });
            if nan_wins { nan } else { number }
        }
    };
}

order!(order16, u16, i16, infinity: 0x7c00, subnormal: 0x03ff, nan: |_| NAN16);
order!(order_bf16, u16, i16, infinity: 0x7f80, subnormal: 0x007f, nan: |_| NAN16);
order!(order32, u32, i32, infinity: 0x7f80_0000, subnormal: 0x007f_ffff, nan: |_| NAN32);
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
        unsafe { map2::<u32, u32, u32>(m, op, mask, |a, b| order32(W::IS_MAX, flags, [a, b])) }
    }
}

struct MinMax64<W>(PhantomData<W>);
impl<W: Which> LaneOp for MinMax64<W> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operand widths.
        unsafe { map2::<u64, u64, u64>(m, op, mask, |a, b| order64(W::IS_MAX, 0, [a, b])) }
    }
}

struct MinMax16<W, const BF16: bool, const PACKED: bool>(PhantomData<W>);
impl<W: Which, const BF16: bool, const PACKED: bool> LaneOp for MinMax16<W, BF16, PACKED> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        let flags = op.imm;
        // SAFETY: the decoder checked the operand widths.
        unsafe {
            map2::<u32, u32, u32>(m, op, mask, |a, b| {
                halves::<PACKED, 2>([a, b], |x| {
                    if BF16 { order_bf16(W::IS_MAX, flags, x) } else { order16(W::IS_MAX, flags, x) }
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
