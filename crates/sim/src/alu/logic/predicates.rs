//! `and or xor not` on predicates: 32 lanes in one word.

use warpfold_ptx::{Instruction, Opcode};

use crate::Error;
use crate::decode::Decoder;
use crate::exec::machine::Machine;
use crate::exec::op::{LaneOp, Op};

macro_rules! predicate_ops {
    ($($name:ident = |$a:ident, $b:ident| $body:expr;)*) => {$(
        /// The sources are predicates `a` and `b`; bits 0 and 1 of `imm` negate them.
        struct $name;
        impl LaneOp for $name {
            #[inline(always)]
            unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
                // SAFETY: the decoder chose predicates of the frame.
                unsafe {
                    let $a = m.predicate(op.a) ^ negation(op.imm & 1 != 0);
                    let $b = m.predicate(op.b) ^ negation(op.imm & 2 != 0);
                    m.set_predicate(op.dst, $body, mask);
                }
            }
        }
    )*};
}

predicate_ops! {
    And = |a, b| a & b;
    Or = |a, b| a | b;
    Xor = |a, b| a ^ b;
}

#[inline(always)]
fn negation(negated: bool) -> u32 {
    if negated { u32::MAX } else { 0 }
}

/// Decodes the mnemonics for `.pred`.
pub(super) fn decode(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    let not = inst.opcode == Opcode::Not;
    d.expect_operands(inst, if not { 2 } else { 3 })?;
    let (a, a_negated) = d.pred_src(inst, 1)?;
    // `not a` is `!a & !a`.
    let (b, b_negated) = if not { (a, a_negated) } else { d.pred_src(inst, 2)? };
    let imm = i64::from(a_negated != not) | i64::from(b_negated != not) << 1;
    let handler = match inst.opcode {
        Opcode::And | Opcode::Not => d.handler::<And>(),
        Opcode::Or => d.handler::<Or>(),
        _ => d.handler::<Xor>(),
    };
    let dst = d.predicate_destination(inst, d.operand(inst, 0)?)?;
    d.push(Op { dst, a, b, imm, ..Op::new(handler) });
    Ok(())
}
