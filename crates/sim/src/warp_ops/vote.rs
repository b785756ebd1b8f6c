//! `vote.sync` and `activemask` (PTX ISA, "vote.sync", "activemask").

use warpfold_ptx::{Instruction, ScalarType as T};

use super::groups;
use crate::Error;
use crate::decode::Decoder;
use crate::exec::machine::Machine;
use crate::exec::meeting::{predicate, row};
use crate::exec::op::{LaneOp, Op};
use crate::exec::row::{ALL_LANES, LANES};

const ALL: u8 = 0;
const ANY: u8 = 1;
const UNI: u8 = 2;

/// A predicate over a predicate: `a` is the source, `imm` negates it, `b` is the row of the
/// members.
struct Vote<const MODE: u8>;
impl<const MODE: u8> LaneOp for Vote<MODE> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operands.
        unsafe {
            let p = m.predicate(op.a) ^ if op.imm != 0 { ALL_LANES } else { 0 };
            groups(m, op.b, mask, |m, group| {
                let holds = match MODE {
                    ALL => p & group == group,
                    ANY => p & group != 0,
                    _ => p & group == group || p & group == 0,
                };
                m.set_predicate(op.dst, if holds { ALL_LANES } else { 0 }, group);
            });
        }
    }
}

/// The lanes whose predicate is true.
struct Ballot;
impl LaneOp for Ballot {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operands.
        unsafe {
            let p = m.predicate(op.a) ^ if op.imm != 0 { ALL_LANES } else { 0 };
            groups(m, op.b, mask, |m, group| m.write(op.dst, &[p & group; LANES], group));
        }
    }
}

/// The lanes that execute together.
struct ActiveMask;
impl LaneOp for ActiveMask {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operands.
        unsafe { m.write(op.dst, &[mask; LANES], mask) }
    }
}

/// Decodes `vote.sync.{all,any,uni}.pred p, {!}a, members` and
/// `vote.sync.ballot.b32 d, {!}a, members`.
pub(crate) fn decode(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    d.expect_modifiers(inst, &["sync", "all", "any", "uni", "ballot"])?;
    if !inst.has("sync") {
        return Err(d.invalid(inst, "vote without .sync does not exist since sm_70"));
    }
    d.expect_operands(inst, 3)?;
    let (a, negated) = d.pred_src(inst, 1)?;
    let b = d.src(inst, 2, T::B32)?;
    let (handler, dst, result) = if inst.has("ballot") {
        let dst = d.dst(inst, 0, T::B32)?;
        (d.handler::<Ballot>(), dst, row(dst, 1))
    } else {
        let handler = if inst.has("all") {
            d.handler::<Vote<ALL>>()
        } else if inst.has("any") {
            d.handler::<Vote<ANY>>()
        } else {
            d.handler::<Vote<UNI>>()
        };
        let operand = inst.operands[0].clone();
        let dst = d.predicate_destination(inst, &operand)?;
        (handler, dst, predicate(dst))
    };
    let slots = ([predicate(a), row(b, 1), None], [result, None]);
    d.shared_exchange(inst, Op { dst, a, b, imm: i64::from(negated), ..Op::new(handler) }, b, slots)
}

/// Decodes `activemask.b32 d`.
pub(crate) fn activemask(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    d.expect_operands(inst, 1)?;
    let dst = d.dst(inst, 0, T::B32)?;
    d.push(Op { dst, ..Op::new(d.handler::<ActiveMask>()) });
    Ok(())
}
