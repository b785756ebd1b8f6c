//! `cvt.pack`: two integers, saturated, beside each other below the bits of a third.

use warpfold_ptx::Instruction;

use crate::Error;
use crate::decode::Decoder;
use crate::exec::machine::Machine;
use crate::exec::op::{LaneOp, Op, map3};

/// `Op::imm` is the size in bits, plus 256 for signed numbers.
struct Pack;
impl LaneOp for Pack {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        let size = (op.imm & 0xff).cast_unsigned();
        let is_signed = op.imm & 256 != 0;
        let ones = (1i64 << size) - 1;
        let (min, max) = if is_signed { (-1 - (ones >> 1), ones >> 1) } else { (0, ones) };
        let saturate = |x: i32| (i64::from(x).max(min).min(max) & ones).cast_unsigned();
        // SAFETY: the decoder checked the operand widths.
        unsafe {
            map3::<i32, i32, u32, u32>(m, op, mask, |a, b, c| {
                let packed = u64::from(c) << (2 * size) | saturate(a) << size | saturate(b);
                #[allow(clippy::cast_possible_truncation, reason = "the rest is cut off")]
                let low = packed as u32;
                low
            });
        }
    }
}

/// Decodes `cvt.pack`.
pub(super) fn decode(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    let modifiers: Vec<&str> = inst.modifiers.iter().map(|m| m.as_str()).collect();
    let (size, is_signed, takes_three) = match modifiers[..] {
        ["pack", "sat", "u16", "s32"] => (16, false, false),
        ["pack", "sat", "s16", "s32"] => (16, true, false),
        ["pack", "sat", "u8", "s32", "b32"] => (8, false, true),
        ["pack", "sat", "s8", "s32", "b32"] => (8, true, true),
        ["pack", "sat", "u4", "s32", "b32"] => (4, false, true),
        ["pack", "sat", "s4", "s32", "b32"] => (4, true, true),
        ["pack", "sat", "u2", "s32", "b32"] => (2, false, true),
        ["pack", "sat", "s2", "s32", "b32"] => (2, true, true),
        _ => return Err(d.unsupported(inst, "not a form of cvt.pack")),
    };
    let (word, integer) = (warpfold_ptx::ScalarType::B32, warpfold_ptx::ScalarType::S32);
    d.expect_operands(inst, if takes_three { 4 } else { 3 })?;
    let (a, b) = (d.src(inst, 1, integer)?, d.src(inst, 2, integer)?);
    let c = if takes_three { d.src(inst, 3, word)? } else { d.constant32(0) };
    let dst = d.dst(inst, 0, word)?;
    let imm = size | if is_signed { 256 } else { 0 };
    d.push(Op { dst, a, b, c, imm, ..Op::new(d.handler::<Pack>()) });
    Ok(())
}
