//! `vadd2 vsub2 vavrg2 vabsdiff2 vmin2 vmax2 vset2`, and the same on four bytes.

use std::hint::select_unpredictable;
use std::marker::PhantomData;

use warpfold_ptx::{Instruction, Name, Opcode, ScalarType as T};

use super::primary::{COMPARISONS, Primary, Shape, handler};
use super::{selected, signed};
use crate::Error;
use crate::decode::Decoder;
use crate::exec::machine::Machine;
use crate::exec::op::{LaneOp, Op, map3};

/// Bits of an element's index among those of both sources.
const INDEX_BITS: u32 = 3;
const B_INDICES: u32 = 12;
const MASK: u32 = 24;
const A_SIGNED: i64 = 1 << 28;
const B_SIGNED: i64 = 1 << 29;
const D_SIGNED: i64 = 1 << 30;
const SATURATE: i64 = 1 << 31;
const ADD: i64 = 1 << 32;

/// Element `i` of `dst` = P of two elements of `a` and `b`, where the mask has it, else of `c`; or
/// `c` plus the sum of the results that the mask has.
struct Simd<P, const N: u32>(PhantomData<P>);
impl<P: Primary, const N: u32> LaneOp for Simd<P, N> {
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the lower bits are meant")]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        let bits = 32 / N;
        let field = (1i64 << bits) - 1;
        let imm = op.imm;
        let flag = |flag: i64| imm & flag != 0;
        let (low, high) = match (flag(SATURATE), flag(D_SIGNED)) {
            (false, _) => (i64::MIN, i64::MAX),
            (true, true) => (-1 << (bits - 1), field >> 1),
            (true, false) => (0, field),
        };
        // What follows is the same for all lanes: shifts that bring an element to the top, and
        // masks.
        let to_top = |first: u32| {
            std::array::from_fn::<u32, 4, _>(|i| {
                let index = (imm >> (first + INDEX_BITS * i as u32)) as u32 & (2 * N - 1);
                64 - bits - bits * index
            })
        };
        let (a_shifts, b_shifts) = (to_top(0), to_top(B_INDICES));
        let kept = |signed: bool| if signed { -1 } else { field };
        let (a_kept, b_kept) = (kept(flag(A_SIGNED)), kept(flag(B_SIGNED)));
        let taken: [u32; 4] = std::array::from_fn(|i| if imm >> (MASK + i as u32) & 1 != 0 { u32::MAX } else { 0 });
        let adds = flag(ADD);
        // SAFETY: the decoder chose 32-bit registers.
        unsafe {
            map3::<u32, u32, u32, u32>(m, op, mask, |a, b, c| {
                let pair = u64::from(b) << 32 | u64::from(a);
                let element = |shift: u32, kept: i64| (pair << shift).cast_signed() >> (64 - bits) & kept;
                let (mut sum, mut merged) = (c, c);
                for i in 0..N as usize {
                    let value = P::compute(element(a_shifts[i], a_kept), element(b_shifts[i], b_kept));
                    let value = value.max(low).min(high) as u32;
                    let at = bits * i as u32;
                    let place = (field as u32) << at & taken[i];
                    sum = sum.wrapping_add(value & taken[i]);
                    merged = merged & !place | value << at & place;
                }
                select_unpredictable(adds, sum, merged)
            });
        }
    }
}

struct Halves;
impl Shape for Halves {
    type Op<P: Primary> = Simd<P, 2>;
}

struct Bytes;
impl Shape for Bytes {
    type Op<P: Primary> = Simd<P, 4>;
}

/// Decodes the mnemonics of this file.
pub(super) fn decode(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    let compares = matches!(inst.opcode, Opcode::Vset2 | Opcode::Vset4);
    let count = if inst.opcode.mnemonic().ends_with('4') { 4 } else { 2 };
    let mut known = vec!["add"];
    known.extend(if compares { &COMPARISONS[..] } else { &["sat"] });
    d.expect_modifiers(inst, &known)?;
    d.expect_operands(inst, 4)?;
    if inst.has("add") && inst.has("sat") {
        return Err(d.invalid(inst, ".sat excludes .add"));
    }
    let handler = if count == 2 { handler::<Halves>(d, inst)? } else { handler::<Bytes>(d, inst)? };

    let flag = |set: bool, flag: i64| if set { flag } else { 0 };
    let first_type = usize::from(!compares);
    let (destination, selector) = selected(d, inst, 0)?;
    let mut imm = mask(d, inst, selector, count)? << MASK
        | flag(inst.has("add"), ADD)
        | flag(inst.has("sat"), SATURATE)
        | flag(!compares && signed(d, inst, 0)?, D_SIGNED)
        | flag(signed(d, inst, first_type)?, A_SIGNED)
        | flag(signed(d, inst, first_type + 1)?, B_SIGNED);
    let (operand, selector) = selected(d, inst, 1)?;
    imm |= indices(d, inst, selector, count, 0)?;
    let a = d.source(inst, &operand, T::B32)?;
    let (operand, selector) = selected(d, inst, 2)?;
    imm |= indices(d, inst, selector, count, count)? << B_INDICES;
    let b = d.source(inst, &operand, T::B32)?;
    let c = d.src(inst, 3, T::B32)?;
    let dst = d.destination(inst, &destination, T::B32)?;
    d.push(Op { dst, a, b, c, imm, ..Op::new(handler) });
    Ok(())
}

/// The digits of a selector for halves or bytes, lowest element first.
fn digits(d: &Decoder, inst: &Instruction, selector: &Name, count: u32) -> Result<Vec<u32>, Error> {
    let letter = if count == 2 { 'h' } else { 'b' };
    let digits =
        selector.strip_prefix(letter).map(|digits| digits.chars().rev().filter_map(|c| c.to_digit(8)).collect());
    digits.ok_or_else(|| d.invalid(inst, format!("'.{selector}' does not select elements of this size")))
}

/// A bit for each element of the destination that is written.
fn mask(d: &Decoder, inst: &Instruction, selector: Option<&Name>, count: u32) -> Result<i64, Error> {
    let Some(selector) = selector else { return Ok((1 << count) - 1) };
    let digits = digits(d, inst, selector, count)?;
    if digits.iter().any(|&digit| digit >= count) {
        return Err(d.invalid(inst, format!("'.{selector}' is no mask")));
    }
    Ok(digits.iter().fold(0, |mask, digit| mask | 1 << digit))
}

/// Three bits for each element: which of both sources' elements it is.
fn indices(d: &Decoder, inst: &Instruction, selector: Option<&Name>, count: u32, start: u32) -> Result<i64, Error> {
    let digits = match selector {
        None => (start..start + count).collect(),
        Some(selector) => digits(d, inst, selector, count)?,
    };
    if digits.len() != count as usize || digits.iter().any(|&digit| digit >= 2 * count) {
        return Err(d.invalid(inst, format!("a selector has {count} digits below {}", 2 * count)));
    }
    Ok(digits.iter().rev().fold(0, |packed, &digit| packed << INDEX_BITS | i64::from(digit)))
}
