//! `shl shr shf`.

use warpfold_ptx::{Instruction, Opcode, ScalarType as T};

use crate::Error;
use crate::alu::define::{for_type, lane_ops};
use crate::alu::integer::bits::clamps;
use crate::alu::integer::int::Int;
use crate::alu::wrong_type;
use crate::decode::Decoder;

lane_ops! {
    Shl<N: Int>(a: N, amount: u32) -> N = a.shl(amount);
    Shr<N: Int>(a: N, amount: u32) -> N = a.shr(amount);
    FunnelLeftClamp(low: u32, high: u32, amount: u32) -> u32 = left(low, high, amount.min(32));
    FunnelLeftWrap(low: u32, high: u32, amount: u32) -> u32 = left(low, high, amount & 31);
    FunnelRightClamp(low: u32, high: u32, amount: u32) -> u32 = right(low, high, amount.min(32));
    FunnelRightWrap(low: u32, high: u32, amount: u32) -> u32 = right(low, high, amount & 31);
}

/// The upper word of `high:low` shifted left by at most 32.
#[inline(always)]
fn left(low: u32, high: u32, amount: u32) -> u32 {
    high.shl(amount) | low.shr(32 - amount)
}

/// The lower word of `high:low` shifted right by at most 32.
#[inline(always)]
fn right(low: u32, high: u32, amount: u32) -> u32 {
    high.shl(32 - amount) | low.shr(amount)
}

/// Decodes the mnemonics of this file.
pub(super) fn decode(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    let ty = d.ty(inst, 0)?;
    match inst.opcode {
        Opcode::Shl => {
            d.expect_modifiers(inst, &[])?;
            d.emit3(inst, for_type!(d, inst, ty, Shl: B16 = u16, B32 = u32, B64 = u64), ty, ty, T::U32)
        }
        Opcode::Shr => {
            d.expect_modifiers(inst, &[])?;
            let handler = for_type!(
                d, inst, ty, Shr: B16 = u16, U16 = u16, S16 = i16, B32 = u32, U32 = u32, S32 = i32, B64 = u64,
                U64 = u64, S64 = i64,
            );
            d.emit3(inst, handler, ty, ty, T::U32)
        }
        _ if ty == T::B32 => {
            d.expect_modifiers(inst, &["l", "r", "clamp", "wrap"])?;
            if inst.has("l") == inst.has("r") {
                return Err(d.invalid(inst, "exactly one of .l and .r is needed"));
            }
            let handler = match (inst.has("l"), clamps(d, inst)?) {
                (true, true) => d.handler::<FunnelLeftClamp>(),
                (true, false) => d.handler::<FunnelLeftWrap>(),
                (false, true) => d.handler::<FunnelRightClamp>(),
                (false, false) => d.handler::<FunnelRightWrap>(),
            };
            d.emit4(inst, handler, ty, [ty, ty, T::U32])
        }
        _ => Err(wrong_type(d, inst, ty)),
    }
}
