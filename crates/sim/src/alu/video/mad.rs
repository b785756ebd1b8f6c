//! `vmad`.

use warpfold_ptx::{Instruction, Operand, ScalarType as T};

use super::scalar::Part;
use super::{selected, signed};
use crate::Error;
use crate::decode::Decoder;
use crate::exec::machine::Machine;
use crate::exec::op::{LaneOp, Op, map3};

const NEGATE_PRODUCT: i64 = 1 << 24;
const NEGATE_THIRD: i64 = 1 << 25;
const PLUS_ONE: i64 = 1 << 26;
const SATURATE: i64 = 1 << 27;
const SIGNED: i64 = 1 << 28;
const SHIFT: u32 = 32;

/// `dst = clamp((±a * b ± c + 1?) >> shift)`. A negated `c` is inverted before it is extended, as
/// the ISA has it, so that it counts as signed even beside unsigned factors.
struct Mad;
impl LaneOp for Mad {
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the lower bits are meant")]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        let (of_a, of_b) = (Part::unpack(op.imm), Part::unpack(op.imm >> 12));
        let flag = |flag: i64| op.imm & flag != 0;
        let (negate, negate_third, signed) = (flag(NEGATE_PRODUCT), flag(NEGATE_THIRD), flag(SIGNED));
        let shift = op.imm >> SHIFT;
        let one = i128::from(flag(PLUS_ONE) || negate || negate_third);
        let range = if signed { (i32::MIN.into(), i32::MAX.into()) } else { (0, u32::MAX.into()) };
        let (low, high) = if flag(SATURATE) { range } else { (i128::MIN, i128::MAX) };
        // SAFETY: the decoder chose 32-bit registers.
        unsafe {
            map3::<u32, u32, u32, u32>(m, op, mask, |a, b, c| {
                let product = i128::from(of_a.extract(a)) * i128::from(of_b.extract(b));
                let product = if negate { !product } else { product };
                let c = if negate_third { !c } else { c };
                let c = if signed { i128::from(c.cast_signed()) } else { i128::from(c) };
                ((product + c + one) >> shift).max(low).min(high) as u32
            });
        }
    }
}

/// Decodes `vmad`.
pub(super) fn decode(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    d.expect_modifiers(inst, &["po", "sat", "shr7", "shr15"])?;
    d.expect_operands(inst, 4)?;
    signed(d, inst, 0)?;
    let (a, of_a, a_negated) = factor(d, inst, 1)?;
    let (b, of_b, b_negated) = factor(d, inst, 2)?;
    let (c, c_negated) = match d.operand(inst, 3)? {
        Operand::Negate(inner) => (d.source(inst, inner, T::B32)?, true),
        other => (d.source(inst, other, T::B32)?, false),
    };
    let negated = a_negated != b_negated;
    if negated && c_negated || inst.has("po") && (a_negated || b_negated || c_negated) {
        return Err(d.invalid(inst, "at most one of the product and the summand is negated, and none with .po"));
    }
    let is_signed = signed(d, inst, 1)? || signed(d, inst, 2)? || negated || c_negated;
    let shift = match (inst.has("shr7"), inst.has("shr15")) {
        (false, false) => 0,
        (true, false) => 7,
        (false, true) => 15,
        (true, true) => return Err(d.invalid(inst, "at most one of .shr7 and .shr15 can be given")),
    };
    let flag = |set: bool, flag: i64| if set { flag } else { 0 };
    let imm = of_a.pack()
        | of_b.pack() << 12
        | flag(negated, NEGATE_PRODUCT)
        | flag(c_negated, NEGATE_THIRD)
        | flag(inst.has("po"), PLUS_ONE)
        | flag(inst.has("sat"), SATURATE)
        | flag(is_signed, SIGNED)
        | shift << SHIFT;
    let dst = d.dst(inst, 0, T::B32)?;
    d.push(Op { dst, a, b, c, imm, ..Op::new(d.handler::<Mad>()) });
    Ok(())
}

/// A factor: its row, the part that is meant, and whether it is negated.
fn factor(d: &mut Decoder, inst: &Instruction, index: usize) -> Result<(u32, Part, bool), Error> {
    let (operand, selector) = selected(d, inst, index)?;
    let (operand, selector, negated) = match operand {
        Operand::Negate(inner) => match *inner {
            Operand::Selected { name, selector } => (Operand::Name { name, component: None }, Some(selector), true),
            other => (other, None, true),
        },
        other => (other, selector.cloned(), false),
    };
    let part = Part::new(d, inst, selector.as_ref(), signed(d, inst, index)?)?;
    Ok((d.source(inst, &operand, T::B32)?, part, negated))
}
