//! Extended precision: `add.cc addc sub.cc subc mad.cc madc`.
//!
//! The carry flag `CC.CF` is a hidden predicate of the function. It is undefined when a function
//! starts and is not kept over calls, as the ISA has it.
//!
//! NOTE: the ISA says that subtraction writes its borrow into the flag. Hardware subtracts by
//! adding the complement and keeps the adder's carry, which is set where there is *no* borrow.
//! Chains of one kind cannot tell; those that mix both can, and nvcc's 128-bit division does
//! (`subc.cc` and then `addc d, 0, 0`). So does the machine here.

use std::hint::select_unpredictable;
use std::marker::PhantomData;

use warpfold_ptx::{Instruction, Opcode};

use super::int::Int;
use super::multiply::half;
use crate::Error;
use crate::alu::define::for_type;
use crate::decode::Decoder;
use crate::exec::machine::Machine;
use crate::exec::op::{LaneOp, NONE, Op};
use crate::exec::row::{LANES, has, mask_of};

/// The two numbers that are added, together with the flag.
trait Formula<N>: 'static {
    /// The flags of all lanes if the instruction reads none.
    const NO_CARRY: u32 = 0;
    fn addends(a: N, b: N, c: N) -> (N, N);
}

struct AddCarry;
impl<N: Int> Formula<N> for AddCarry {
    #[inline(always)]
    fn addends(a: N, b: N, _: N) -> (N, N) {
        (a, b)
    }
}

struct SubBorrow;
impl<N: Int> Formula<N> for SubBorrow {
    const NO_CARRY: u32 = u32::MAX;

    #[inline(always)]
    fn addends(a: N, b: N, _: N) -> (N, N) {
        (a, b.not())
    }
}

struct MadLoCarry;
impl<N: Int> Formula<N> for MadLoCarry {
    #[inline(always)]
    fn addends(a: N, b: N, c: N) -> (N, N) {
        (a.mul(b), c)
    }
}

struct MadHiCarry;
impl<N: Int> Formula<N> for MadHiCarry {
    #[inline(always)]
    fn addends(a: N, b: N, c: N) -> (N, N) {
        (a.mul_hi(b), c)
    }
}

/// `dst, predicate dst2 = F(a, b, c, predicate d)`; without a carry in, `d` is no predicate.
struct Extended<F, N>(PhantomData<(F, N)>);

impl<F: Formula<N>, N: Int> LaneOp for Extended<F, N> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder chose registers of this type's width, and predicates of the frame.
        unsafe {
            let carry_in = if op.d == NONE { F::NO_CARRY } else { m.predicate(op.d) };
            let (a, b, c) = (&*m.lanes::<N::Bits>(op.a), &*m.lanes::<N::Bits>(op.b), &*m.lanes::<N::Bits>(op.c));
            // The sums are made twice: a loop that yields both them and the carries does not
            // vectorise.
            let sum = |lane: usize| {
                let (a, b) = F::addends(N::from_bits(a[lane]), N::from_bits(b[lane]), N::from_bits(c[lane]));
                (a, b, a.add(b).add(select_unpredictable(has(carry_in, lane), N::one(), N::default())))
            };
            let carry_out = mask_of(|lane| {
                let (a, b, sum) = sum(lane);
                a.carries(b, sum).top()
            });
            let mut out = [N::Bits::default(); LANES];
            for lane in 0..LANES {
                out[lane] = sum(lane).2.to_bits();
            }
            m.write(op.dst, &out, mask);
            m.set_predicate(op.dst2, carry_out, mask);
        }
    }
}

type Sum<N> = Extended<AddCarry, N>;
type Difference<N> = Extended<SubBorrow, N>;
type ProductLo<N> = Extended<MadLoCarry, N>;
type ProductHi<N> = Extended<MadHiCarry, N>;

/// Decodes the mnemonics of this file.
pub(super) fn decode(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    let ty = d.ty(inst, 0)?;
    let product = matches!(inst.opcode, Opcode::Mad | Opcode::Madc);
    d.expect_modifiers(inst, if product { &["cc", "lo", "hi"] } else { &["cc"] })?;
    let handler = match inst.opcode {
        Opcode::Add | Opcode::Addc => for_type!(d, inst, ty, Sum: U32 = u32, S32 = u32, U64 = u64, S64 = u64),
        Opcode::Sub | Opcode::Subc => for_type!(d, inst, ty, Difference: U32 = u32, S32 = u32, U64 = u64, S64 = u64),
        _ if half(d, inst)? == "lo" => {
            for_type!(d, inst, ty, ProductLo: U32 = u32, S32 = u32, U64 = u64, S64 = u64)
        }
        _ => for_type!(d, inst, ty, ProductHi: U32 = u32, S32 = i32, U64 = u64, S64 = i64),
    };
    d.expect_operands(inst, if product { 4 } else { 3 })?;
    let (a, b) = (d.src(inst, 1, ty)?, d.src(inst, 2, ty)?);
    let c = if product { d.src(inst, 3, ty)? } else { a };
    let carries_in = matches!(inst.opcode, Opcode::Addc | Opcode::Subc | Opcode::Madc);
    let carry_in = if carries_in { d.f.read_carry() } else { NONE };
    let dst = d.dst(inst, 0, ty)?;
    let carry_out = if inst.has("cc") { d.f.write_carry() } else { NONE };
    d.push(Op { dst, dst2: carry_out, a, b, c, d: carry_in, ..Op::new(handler) });
    Ok(())
}

/// Returns true if an instruction reads or writes the carry flag.
pub(super) fn uses_carry(inst: &Instruction) -> bool {
    inst.has("cc") || matches!(inst.opcode, Opcode::Addc | Opcode::Subc | Opcode::Madc)
}
