//! `vadd vsub vabsdiff vmin vmax vshl vshr vset`.

use std::marker::PhantomData;

use warpfold_ptx::{Instruction, Name, Opcode, ScalarType as T};

use super::primary::{COMPARISONS, Primary, Shape, handler};
use super::{first_of, selected, signed};
use crate::Error;
use crate::decode::Decoder;
use crate::exec::machine::Machine;
use crate::exec::op::{LaneOp, Op, map3};

/// A part of a register: a byte, a half, or all of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    offset: u32,
    width: u32,
    signed: bool,
}

impl Part {
    /// The part that a selector names.
    pub(super) fn new(d: &Decoder, inst: &Instruction, selector: Option<&Name>, signed: bool) -> Result<Self, Error> {
        let (offset, width) = match selector.map(Name::as_str) {
            None => (0, 32),
            Some("b0") => (0, 8),
            Some("b1") => (8, 8),
            Some("b2") => (16, 8),
            Some("b3") => (24, 8),
            Some("h0") => (0, 16),
            Some("h1") => (16, 16),
            Some(other) => return Err(d.invalid(inst, format!("'.{other}' selects no single part"))),
        };
        Ok(Self { offset, width, signed })
    }

    /// Its value in a register.
    #[inline(always)]
    pub(super) fn extract(self, word: u32) -> i64 {
        let top = (u64::from(word) << (64 - self.offset - self.width)).cast_signed();
        let value = top >> (64 - self.width);
        if self.signed { value } else { value & self.mask() }
    }

    fn mask(self) -> i64 {
        (1 << self.width) - 1
    }

    /// The values that it can hold.
    fn range(self) -> (i64, i64) {
        if self.signed { (-1 << (self.width - 1), self.mask() >> 1) } else { (0, self.mask()) }
    }

    /// Twelve bits.
    pub(super) fn pack(self) -> i64 {
        i64::from(self.offset | self.width << 5 | u32::from(self.signed) << 11)
    }

    /// Decodes the packed form.
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "twelve bits")]
    pub(super) fn unpack(bits: i64) -> Self {
        let bits = bits as u32;
        Self { offset: bits & 31, width: bits >> 5 & 63, signed: bits >> 11 & 1 != 0 }
    }
}

const SATURATE: i64 = 1 << 36;
const ADD: i64 = 1 << 37;
const MIN: i64 = 1 << 38;
const MAX: i64 = 1 << 39;

/// `dst = merge(secondary(clamp(P(part of a, part of b)), c))`. `imm` holds the parts of `a`, `b`
/// and `dst` and flags.
struct Scalar<P>(PhantomData<P>);
impl<P: Primary> LaneOp for Scalar<P> {
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the lower bits are meant")]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        let of_a = Part::unpack(op.imm);
        let of_b = Part::unpack(op.imm >> 12);
        let of_d = Part::unpack(op.imm >> 24);
        let whole = Part { offset: 0, width: 32, ..of_d };
        let (low, high) = if op.imm & SATURATE != 0 { of_d.range() } else { (i64::MIN, i64::MAX) };
        let (add, min, max) = (op.imm & ADD != 0, op.imm & MIN != 0, op.imm & MAX != 0);
        let field = of_d.mask() as u32;
        let kept = !(field << of_d.offset);
        // SAFETY: the decoder chose 32-bit registers.
        unsafe {
            map3::<u32, u32, u32, u32>(m, op, mask, |a, b, c| {
                let third = whole.extract(c);
                let value = P::compute(of_a.extract(a), of_b.extract(b)).max(low).min(high);
                let value = value + if add { third } else { 0 };
                let value = value.min(if min { third } else { i64::MAX }).max(if max { third } else { i64::MIN });
                (value as u32 & field) << of_d.offset | c & kept
            });
        }
    }
}

struct Scalars;
impl Shape for Scalars {
    type Op<P: Primary> = Scalar<P>;
}

/// Decodes the mnemonics of this file.
pub(super) fn decode(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    let compares = inst.opcode == Opcode::Vset;
    let shifts = matches!(inst.opcode, Opcode::Vshl | Opcode::Vshr);
    let mut known = vec!["add", "min", "max"];
    known.extend(if compares { &COMPARISONS[..] } else { &["sat"] });
    known.extend(if shifts { &["clamp", "wrap"][..] } else { &[] });
    d.expect_modifiers(inst, &known)?;
    let handler = handler::<Scalars>(d, inst)?;

    let (destination, selector) = selected(d, inst, 0)?;
    let result = Part::new(d, inst, selector, if compares { false } else { signed(d, inst, 0)? })?;
    let secondary = match first_of(inst, &["add", "min", "max"]) {
        None => 0,
        Some(_) if selector.is_some() => {
            return Err(d.invalid(inst, "a secondary operation excludes merging into a part"));
        }
        Some("add") => ADD,
        Some("min") => MIN,
        Some(_) => MAX,
    };
    let has_third = secondary != 0 || selector.is_some();
    d.expect_operands(inst, if has_third { 4 } else { 3 })?;

    let first_type = usize::from(!compares);
    let (operand, selector) = selected(d, inst, 1)?;
    let of_a = Part::new(d, inst, selector, signed(d, inst, first_type)?)?;
    let a = d.source(inst, &operand, T::B32)?;
    let (operand, selector) = selected(d, inst, 2)?;
    let of_b = Part::new(d, inst, selector, signed(d, inst, first_type + 1)?)?;
    if shifts && of_b.signed {
        return Err(d.invalid(inst, "the amount of a shift must be .u32"));
    }
    let b = d.source(inst, &operand, T::B32)?;
    let c = if has_third { d.src(inst, 3, T::B32)? } else { a };
    let dst = d.destination(inst, &destination, T::B32)?;
    let imm =
        of_a.pack() | of_b.pack() << 12 | result.pack() << 24 | secondary | if inst.has("sat") { SATURATE } else { 0 };
    d.push(Op { dst, a, b, c, imm, ..Op::new(handler) });
    Ok(())
}
