//! Comparison and selection (PTX ISA, "Comparison and Selection Instructions", "Half Precision
//! Comparison Instructions").
//!
//! A plain `setp` is one operation. With a Boolean operator, packed sources or `set`, tests go to
//! hidden predicates first; operations on whole predicates follow.

mod relation;
mod select;
mod view;

use warpfold_ptx::{Instruction, Opcode, Operand, ScalarType as T};

use crate::Error;
use crate::alu::wrong_type;
use crate::decode::Decoder;
use crate::exec::machine::Machine;
use crate::exec::op::{LaneOp, NONE, Op};
use crate::exec::row::{LANES, has};

/// `predicate dst = a op c`, `predicate dst2 = b op c`; without `b`, `!a` takes its place. Bits 0
/// and 1 of `imm` are the operator, bit 2 negates `c`.
struct Combine;
const COPY: i64 = 0;
const AND: i64 = 1;
const OR: i64 = 2;
const XOR: i64 = 3;
impl LaneOp for Combine {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder chose predicates of the frame.
        unsafe {
            let first = m.predicate(op.a);
            let second = if op.b == NONE { !first } else { m.predicate(op.b) };
            let other = if op.c == NONE { 0 } else { m.predicate(op.c) } ^ if op.imm & 4 != 0 { u32::MAX } else { 0 };
            let combine = |test: u32| match op.imm & 3 {
                AND => test & other,
                OR => test | other,
                XOR => test ^ other,
                _ => test,
            };
            m.set_predicate(op.dst, combine(first), mask);
            m.set_predicate(op.dst2, combine(second), mask);
        }
    }
}

/// Row `dst` = `imm` where predicate `a` holds, else zero; with a predicate `b`, that one rules the
/// upper half.
struct Expand;
impl LaneOp for Expand {
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the decoder put 32 bits there")]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder chose a 32-bit register, and predicates of the frame.
        unsafe {
            let value = op.imm as u32;
            let lower = m.predicate(op.a);
            let (upper, split) = if op.b == NONE { (lower, value) } else { (m.predicate(op.b), value & 0xffff) };
            let mut out = [0; LANES];
            for (lane, out) in out.iter_mut().enumerate() {
                *out = if has(lower, lane) { split } else { 0 } | if has(upper, lane) { value & !split } else { 0 };
            }
            m.write(op.dst, &out, mask);
        }
    }
}

/// Decodes the family's mnemonics.
pub(crate) fn decode(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    match inst.opcode {
        Opcode::Selp => select::selp(d, inst),
        Opcode::Slct => select::slct(d, inst),
        Opcode::Set => set(d, inst),
        _ => setp(d, inst),
    }
}

fn setp(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    let ty = d.ty(inst, 0)?;
    let operator = operator(d, inst)?;
    let (first, second) = match d.operand(inst, 0)? {
        Operand::Pair(first, second) => (&**first, Some(&**second)),
        single => (single, None),
    };
    if second.is_some() && matches!(ty, T::F16 | T::Bf16) {
        return Err(d.invalid(inst, format!("type .{} has no second destination", ty.name())));
    }
    if operator == COPY && !packed(ty) {
        let test = test(d, inst, ty, false)?;
        let p = d.predicate_destination(inst, first)?;
        let q = second.map_or(Ok(NONE), |second| d.predicate_destination(inst, second))?;
        d.push(aimed(test, p, q));
        return Ok(());
    }
    let [a, b] = tests(d, inst, ty)?;
    let (c, negated) = if operator == COPY { (NONE, false) } else { d.pred_src(inst, 3)? };
    let p = d.predicate_destination(inst, first)?;
    let q = second.map_or(Ok(NONE), |second| d.predicate_destination(inst, second))?;
    let imm = operator | i64::from(negated) << 2;
    d.push(Op { dst: p, dst2: q, a, b, c, imm, ..Op::new(d.handler::<Combine>()) });
    Ok(())
}

fn set(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    let (result, ty) = (d.ty(inst, 0)?, d.ty(inst, 1)?);
    let operator = operator(d, inst)?;
    if result == T::Bf16 && inst.has("ftz") {
        return Err(d.invalid(inst, "a .bf16 result has no .ftz"));
    }
    let holds = truth(result, ty).ok_or_else(|| wrong_type(d, inst, result))?;
    let [mut a, mut b] = tests(d, inst, ty)?;
    if operator != COPY {
        let (c, negated) = d.pred_src(inst, 3)?;
        let (dst, dst2) = (d.f.fresh_predicate(), if b == NONE { NONE } else { d.f.fresh_predicate() });
        let imm = operator | i64::from(negated) << 2;
        d.push(Op { dst, dst2, a, b, c, imm, ..Op::new(d.handler::<Combine>()) });
        (a, b) = (dst, dst2);
    }
    let dst = d.dst(inst, 0, result)?;
    d.push(Op { dst, a, b, imm: i64::from(holds), ..Op::new(d.handler::<Expand>()) });
    Ok(())
}

/// Value that `set` writes where the comparison holds; `None` if the types do not go together.
fn truth(result: T, source: T) -> Option<u32> {
    let half = matches!(source, T::F16 | T::Bf16);
    match result {
        T::U32 | T::S32 => Some(u32::MAX),
        T::F32 if !half && !packed(source) => Some(1f32.to_bits()),
        T::U16 | T::S16 if half => Some(0xffff),
        T::F16 if !packed(source) && source != T::Bf16 => Some(0x3c00),
        T::Bf16 if !packed(source) => Some(0x3f80),
        T::F16x2 if source == T::F16x2 => Some(0x3c00_3c00),
        T::Bf16x2 if source == T::Bf16x2 => Some(0x3f80_3f80),
        _ => None,
    }
}

fn packed(ty: T) -> bool {
    matches!(ty, T::F16x2 | T::Bf16x2)
}

/// Checks modifiers and number of operands, and returns the Boolean operator.
fn operator(d: &Decoder, inst: &Instruction) -> Result<i64, Error> {
    let relation = inst.modifiers.first().map_or("", |name| name.as_str());
    d.expect_modifiers(inst, &[relation, "and", "or", "xor", "ftz"])?;
    let operator = match (inst.has("and"), inst.has("or"), inst.has("xor")) {
        (false, false, false) => COPY,
        (true, false, false) => AND,
        (false, true, false) => OR,
        (false, false, true) => XOR,
        _ => return Err(d.invalid(inst, "at most one Boolean operator can be given")),
    };
    d.expect_operands(inst, if operator == COPY { 3 } else { 4 })?;
    Ok(operator)
}

/// Tests into hidden predicates: one, or one per half of packed sources.
fn tests(d: &mut Decoder, inst: &Instruction, ty: T) -> Result<[u32; 2], Error> {
    let lower = d.f.fresh_predicate();
    let test_lower = test(d, inst, ty, false)?;
    d.push(aimed(test_lower, lower, NONE));
    if !packed(ty) {
        return Ok([lower, NONE]);
    }
    let upper = d.f.fresh_predicate();
    let test_upper = test(d, inst, ty, true)?;
    d.push(aimed(test_upper, upper, NONE));
    Ok([lower, upper])
}

/// The operation of a comparison, and whether its results are to be exchanged.
fn test(d: &mut Decoder, inst: &Instruction, ty: T, upper: bool) -> Result<(Op, bool), Error> {
    let relation = relation::relation(d, inst, ty)?;
    let handler = relation::handler(d, inst, relation.test, ty, upper)?;
    let (a, b) = (d.src(inst, 1, ty)?, d.src(inst, 2, ty)?);
    let (a, b) = if relation.exchanged { (b, a) } else { (a, b) };
    Ok((Op { a, b, ..Op::new(handler) }, relation.negated))
}

/// A test that sets `p` to its relation and `q` to the negation.
fn aimed((op, negated): (Op, bool), p: u32, q: u32) -> Op {
    if negated { Op { dst: q, dst2: p, ..op } } else { Op { dst: p, dst2: q, ..op } }
}
