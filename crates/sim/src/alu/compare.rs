//! Comparison and selection (PTX ISA, "Comparison and Selection Instructions").

use warpfold_ptx::{Instruction, Opcode, Operand, ScalarType as T};

use crate::Error;
use crate::decode::Decoder;
use crate::exec::machine::Machine;
use crate::exec::op::{LaneOp, Op, test2};

macro_rules! compare {
    ($($name:ident($ty:ty) = |$x:ident, $y:ident| $body:expr;)*) => {$(
        struct $name;
        impl LaneOp for $name {
            #[inline(always)]
            unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
                // SAFETY: the decoder checked the operand widths.
                unsafe {
                    let holds = test2::<$ty, $ty>(m, op, |$x, $y| $body);
                    m.set_predicate(op.dst, holds, mask);
                }
            }
        }
    )*};
}

compare! {
    EqU32(u32) = |a, b| a == b;
    NeU32(u32) = |a, b| a != b;
    LtU32(u32) = |a, b| a < b;
    GeU32(u32) = |a, b| a >= b;
    GtU32(u32) = |a, b| a > b;
    LtS32(i32) = |a, b| a < b;
    GeS32(i32) = |a, b| a >= b;
}

/// Decodes `setp` and its like.
pub(crate) fn decode(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    let ty = d.ty(inst, 0)?;
    let handler = match (inst.opcode, inst.modifiers[0].as_str(), ty) {
        (Opcode::Setp, "eq", T::U32 | T::S32 | T::B32) => d.handler::<EqU32>(),
        (Opcode::Setp, "ne", T::U32 | T::S32 | T::B32) => d.handler::<NeU32>(),
        (Opcode::Setp, "lt", T::U32) => d.handler::<LtU32>(),
        (Opcode::Setp, "ge", T::U32) => d.handler::<GeU32>(),
        (Opcode::Setp, "gt", T::U32) => d.handler::<GtU32>(),
        (Opcode::Setp, "lt", T::S32) => d.handler::<LtS32>(),
        (Opcode::Setp, "ge", T::S32) => d.handler::<GeS32>(),
        _ => return Err(d.unsupported(inst, "not executed")),
    };
    let operand: Operand = d.operand(inst, 0)?.clone();
    let (a, b) = (d.src(inst, 1, ty)?, d.src(inst, 2, ty)?);
    let dst = d.predicate_destination(inst, &operand)?;
    d.push(Op { dst, a, b, ..Op::new(handler) });
    Ok(())
}
