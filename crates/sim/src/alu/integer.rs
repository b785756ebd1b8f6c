//! Integer arithmetic (PTX ISA, "Integer Arithmetic Instructions").

use warpfold_ptx::{Instruction, Opcode, ScalarType as T};

use crate::Error;
use crate::decode::Decoder;
use crate::exec::machine::Machine;
use crate::exec::op::{LaneOp, Op, map2, map3};

/// Declares operations of two sources.
macro_rules! binary {
    ($($name:ident($a:ty, $b:ty) -> $d:ty = |$x:ident, $y:ident| $body:expr;)*) => {$(
        struct $name;
        impl LaneOp for $name {
            #[inline(always)]
            unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
                // SAFETY: the decoder checked the operand widths.
                unsafe { map2::<$a, $b, $d>(m, op, mask, |$x, $y| $body) }
            }
        }
    )*};
}

binary! {
    AddU16(u16, u16) -> u16 = |a, b| a.wrapping_add(b);
    AddU32(u32, u32) -> u32 = |a, b| a.wrapping_add(b);
    AddU64(u64, u64) -> u64 = |a, b| a.wrapping_add(b);
    MulLo32(u32, u32) -> u32 = |a, b| a.wrapping_mul(b);
    MulWideS32(i32, i32) -> i64 = |a, b| i64::from(a) * i64::from(b);
    MulWideU32(u32, u32) -> u64 = |a, b| u64::from(a) * u64::from(b);
}

struct MadLo32;
impl LaneOp for MadLo32 {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operand widths.
        unsafe { map3::<u32, u32, u32, u32>(m, op, mask, |a, b, c| a.wrapping_mul(b).wrapping_add(c)) }
    }
}

/// Decodes integer arithmetic.
pub(crate) fn decode(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    let ty = d.ty(inst, 0)?;
    match (inst.opcode, ty) {
        (Opcode::Add, T::U16 | T::S16) => d.emit3(inst, d.handler::<AddU16>(), ty, ty, ty),
        (Opcode::Add, T::U32 | T::S32) => d.emit3(inst, d.handler::<AddU32>(), ty, ty, ty),
        (Opcode::Add, T::U64 | T::S64) => d.emit3(inst, d.handler::<AddU64>(), ty, ty, ty),
        (Opcode::Mul, T::U32 | T::S32) if inst.has("lo") => d.emit3(inst, d.handler::<MulLo32>(), ty, ty, ty),
        (Opcode::Mul, T::U32) if inst.has("wide") => d.emit3(inst, d.handler::<MulWideU32>(), T::U64, ty, ty),
        (Opcode::Mul, T::S32) if inst.has("wide") => d.emit3(inst, d.handler::<MulWideS32>(), T::S64, ty, ty),
        (Opcode::Mad, T::U32 | T::S32) if inst.has("lo") => d.emit4(inst, d.handler::<MadLo32>(), ty, [ty; 3]),
        _ => Err(d.unsupported(inst, "not executed")),
    }
}
