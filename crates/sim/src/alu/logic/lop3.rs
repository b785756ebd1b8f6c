//! `lop3`.

use warpfold_ptx::{Instruction, Operand, ScalarType as T};

use crate::Error;
use crate::alu::wrong_type;
use crate::decode::Decoder;
use crate::exec::machine::Machine;
use crate::exec::op::{Handler, LaneOp, NONE, Op, map3};
use crate::exec::row::mask_of;

/// A function of three bits that is known at compile time.
struct Fixed<const TABLE: u8>;
impl<const TABLE: u8> LaneOp for Fixed<TABLE> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder chose 32-bit registers.
        unsafe { map3::<u32, u32, u32, u32>(m, op, mask, |a, b, c| evaluate(masks(TABLE), a, b, c)) }
    }
}

/// Any function of three bits: `imm` is its table.
struct Any;
impl LaneOp for Any {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the decoder checked the range")]
        let masks = masks(op.imm as u8);
        // SAFETY: the decoder chose 32-bit registers.
        unsafe { map3::<u32, u32, u32, u32>(m, op, mask, |a, b, c| evaluate(masks, a, b, c)) }
    }
}

/// Entry `i` of the table as 32 equal bits.
#[inline(always)]
fn masks(table: u8) -> [u32; 8] {
    std::array::from_fn(|i| 0u32.wrapping_sub(u32::from(table >> i & 1)))
}

/// Evaluates the table bit by bit: the entry with index `a b c`, most significant first.
#[inline(always)]
fn evaluate(t: [u32; 8], a: u32, b: u32, c: u32) -> u32 {
    let choose = |selector: u32, zero: u32, one: u32| zero ^ selector & (zero ^ one);
    let without_a = choose(b, choose(c, t[0], t[1]), choose(c, t[2], t[3]));
    let with_a = choose(b, choose(c, t[4], t[5]), choose(c, t[6], t[7]));
    choose(a, without_a, with_a)
}

/// `predicate dst = (row a != 0) op predicate b`: `and` where bit 0 of `imm` is set, else `or`; bit
/// 1 negates `b`.
struct NotZero;
impl LaneOp for NotZero {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder chose a 32-bit register, and predicates of the frame.
        unsafe {
            let value = &*m.lanes::<u32>(op.a);
            let holds = mask_of(|lane| value[lane] != 0);
            let other = m.predicate(op.b) ^ if op.imm & 2 != 0 { u32::MAX } else { 0 };
            m.set_predicate(op.dst, if op.imm & 1 != 0 { holds & other } else { holds | other }, mask);
        }
    }
}

/// The handler of a table: compilers use a few of them very often.
fn handler(d: &Decoder, table: u8) -> Handler {
    macro_rules! fixed {
        ($($table:literal)*) => {
            match table { $($table => d.handler::<Fixed<$table>>(),)* _ => d.handler::<Any>() }
        };
    }
    fixed! { 0x1e 0x28 0x3c 0x48 0x60 0x6a 0x78 0x80 0x90 0x96 0xac 0xb8 0xc0 0xca 0xd8 0xe2 0xe8 0xea 0xec 0xf8 0xfc 0xfe }
}

/// Decodes `lop3`.
pub(super) fn decode(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    let ty = d.ty(inst, 0)?;
    d.expect_modifiers(inst, &["and", "or"])?;
    if ty != T::B32 {
        return Err(wrong_type(d, inst, ty));
    }
    let combines = inst.has("and") || inst.has("or");
    d.expect_operands(inst, if combines { 6 } else { 5 })?;
    let table = u8::try_from(d.literal(inst, 4)?).map_err(|_| d.invalid(inst, "the table must be 0 to 255"))?;
    let [a, b, c] = [d.src(inst, 1, ty)?, d.src(inst, 2, ty)?, d.src(inst, 3, ty)?];
    let function = Op { a, b, c, imm: i64::from(table), ..Op::new(handler(d, table)) };
    if !combines {
        let dst = d.dst(inst, 0, ty)?;
        d.push(Op { dst, ..function });
        return Ok(());
    }
    let Operand::Pair(result, predicate) = d.operand(inst, 0)? else {
        return Err(d.invalid(inst, "a second destination is needed"));
    };
    let (q, negated) = d.pred_src(inst, 5)?;
    let dst = d.destination(inst, result, ty)?;
    let p = d.predicate_destination(inst, predicate)?;
    let combine = d.handler::<NotZero>();
    d.push(Op { dst, ..function });
    if p != NONE {
        let imm = i64::from(inst.has("and")) | i64::from(negated) << 1;
        d.push(Op { dst: p, a: dst, b: q, imm, ..Op::new(combine) });
    }
    Ok(())
}
