//! `elect.sync` (PTX ISA, "elect.sync"): the lowest lane of the members is elected,
//! deterministically.

use warpfold_ptx::{Instruction, Operand, ScalarType as T};

use super::groups;
use crate::Error;
use crate::decode::Decoder;
use crate::exec::machine::Machine;
use crate::exec::meeting::{predicate as predicate_slot, row};
use crate::exec::op::{LaneOp, NONE, Op};
use crate::exec::row::LANES;

/// `dst` is the elected lane, `dst2` is true in that lane only; `b` is the row of the members.
struct Elect;
impl LaneOp for Elect {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operands.
        unsafe {
            groups(m, op.b, mask, |m, group| {
                let leader = group.trailing_zeros();
                if op.dst != NONE {
                    m.write(op.dst, &[leader; LANES], group);
                }
                m.set_predicate(op.dst2, 1 << leader, group);
            });
        }
    }
}

/// Decodes `elect.sync d|p, members`.
pub(crate) fn decode(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    d.require(inst, 90)?;
    d.expect_modifiers(inst, &["sync"])?;
    d.expect_operands(inst, 2)?;
    let b = d.src(inst, 1, T::B32)?;
    let Operand::Pair(value, predicate) = &inst.operands[0] else {
        return Err(d.invalid(inst, "expected a register and a predicate: d|p"));
    };
    let (value, predicate) = (value.as_ref().clone(), predicate.as_ref().clone());
    let dst = if matches!(value, Operand::Sink) { NONE } else { d.destination(inst, &value, T::B32)? };
    let dst2 = d.predicate_destination(inst, &predicate)?;
    let slots = ([None, row(b, 1), None], [row(dst, 1), predicate_slot(dst2)]);
    d.shared_exchange(inst, Op { dst, dst2, b, ..Op::new(d.handler::<Elect>()) }, b, slots)
}
