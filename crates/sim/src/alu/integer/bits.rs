//! `popc clz bfind fns brev bfe bfi szext bmsk`.

use warpfold_ptx::{Instruction, Opcode, ScalarType as T};

use super::int::Int;
use crate::Error;
use crate::alu::define::{for_type, lane_ops};
use crate::alu::wrong_type;
use crate::decode::Decoder;
use crate::exec::machine::Machine;
use crate::exec::op::{Handler, LaneOp, Op};
use crate::exec::row::LANES;

lane_ops! {
    Popc<N: Bits>(a: N) -> u32 = a.ones();
    Clz<N: Bits>(a: N) -> u32 = a.leading_zeros();
    Brev<N: Bits>(a: N) -> N = a.reversed();
    Bfind<N: Bits>(a: N) -> u32 = (N::BITS - 1).wrapping_sub(a.without_sign().leading_zeros());
    BfindShift<N: Bits>(a: N) -> u32 = {
        let shift = a.without_sign().leading_zeros();
        if shift == N::BITS { u32::MAX } else { shift }
    };
    Fns(mask: u32, base: u32, offset: i32) -> u32 = nth_set(mask, base, offset);
    Bfe<N: Bits>(a: N, position: u32, length: u32) -> N = extract(a, position & 0xff, length & 0xff);
    SzextClamp<N: Bits>(a: N, width: u32) -> N = a.low(width);
    SzextWrap<N: Bits>(a: N, width: u32) -> N = a.low(width & 31);
    BmskClamp(a: u32, b: u32) -> u32 = (if b < 32 { !(u32::MAX << b) } else { u32::MAX }).shl(a);
    BmskWrap(a: u32, b: u32) -> u32 = !(u32::MAX << (b & 31)) << (a & 31);
}

/// Integers as bits.
trait Bits: Int {
    fn ones(self) -> u32;
    fn leading_zeros(self) -> u32;
    fn reversed(self) -> Self;
    /// The bits, inverted if negative: the highest set bit then follows the sign bits.
    fn without_sign(self) -> Self;
    /// The value of its lowest bits, extended as the type extends; all of it from the width on.
    fn low(self, bits: u32) -> Self;
}

macro_rules! bits {
    ($($ty:ident: $sign:expr;)*) => {$(
        impl Bits for $ty {
            #[inline(always)]
            fn ones(self) -> u32 { self.count_ones() }
            #[inline(always)]
            fn leading_zeros(self) -> u32 { $ty::leading_zeros(self) }
            #[inline(always)]
            fn reversed(self) -> Self { self.reverse_bits() }
            #[inline(always)]
            fn without_sign(self) -> Self { self ^ $sign(self) }
            #[inline(always)]
            fn low(self, bits: u32) -> Self {
                let unused = $ty::BITS.saturating_sub(bits);
                if unused == $ty::BITS { 0 } else { self << unused >> unused }
            }
        }
    )*};
}

bits! {
    u32: |_| 0;
    i32: |a: i32| a >> 31;
    u64: |_| 0;
    i64: |a: i64| a >> 63;
}

/// `bfe`: the field starts at `position`; what lies beyond the most significant bit is filled with
/// the sign.
#[inline(always)]
fn extract<N: Bits>(a: N, position: u32, length: u32) -> N {
    a.shr(position).low(length)
}

/// `fns`: the position of the n-th set bit from `base`, upwards or downwards, or all ones.
#[inline(always)]
fn nth_set(mask: u32, base: u32, offset: i32) -> u32 {
    if base > 31 {
        return u32::MAX;
    }
    // The bits in the direction of the search, turned so that it always goes up from bit 0.
    let up = offset >= 0;
    let mut bits = if up { mask >> base } else { mask.reverse_bits() >> (31 - base) };
    if offset == 0 {
        return if bits & 1 != 0 { base } else { u32::MAX };
    }
    for _ in 1..offset.unsigned_abs().min(33) {
        bits &= bits.wrapping_sub(1);
    }
    match (bits, up) {
        (0, _) => u32::MAX,
        (_, true) => base + bits.trailing_zeros(),
        (_, false) => base - bits.trailing_zeros(),
    }
}

/// `bfi`: `dst = b` with the lowest bits of `a` at position `c`, length `d`.
struct Bfi<N>(std::marker::PhantomData<N>);
impl<N: Bits + std::ops::Not<Output = N> + std::ops::BitAnd<Output = N> + std::ops::BitOr<Output = N>> LaneOp
    for Bfi<N>
{
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder chose registers of these types' widths.
        unsafe {
            let (a, b) = (&*m.lanes::<N::Bits>(op.a), &*m.lanes::<N::Bits>(op.b));
            let (position, length) = (&*m.lanes::<u32>(op.c), &*m.lanes::<u32>(op.d));
            let mut out = [N::Bits::default(); LANES];
            for lane in 0..LANES {
                let (position, length) = (position[lane] & 0xff, length[lane] & 0xff);
                let field = (!N::default()).low(length).shl(position);
                let value = N::from_bits(a[lane]).shl(position) & field | N::from_bits(b[lane]) & !field;
                out[lane] = value.to_bits();
            }
            m.write(op.dst, &out, mask);
        }
    }
}

/// Decodes the mnemonics of this file.
pub(super) fn decode(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    let ty = d.ty(inst, 0)?;
    d.expect_modifiers(
        inst,
        match inst.opcode {
            Opcode::Bfind => &["shiftamt"],
            Opcode::Szext | Opcode::Bmsk => &["clamp", "wrap"],
            _ => &[],
        },
    )?;
    match inst.opcode {
        Opcode::Popc => d.emit2(inst, for_type!(d, inst, ty, Popc: B32 = u32, B64 = u64), T::U32, ty),
        Opcode::Clz => d.emit2(inst, for_type!(d, inst, ty, Clz: B32 = u32, B64 = u64), T::U32, ty),
        Opcode::Brev => d.emit2(inst, for_type!(d, inst, ty, Brev: B32 = u32, B64 = u64), ty, ty),
        Opcode::Bfind if inst.has("shiftamt") => {
            d.emit2(inst, for_type!(d, inst, ty, BfindShift: U32 = u32, S32 = i32, U64 = u64, S64 = i64), T::U32, ty)
        }
        Opcode::Bfind => {
            d.emit2(inst, for_type!(d, inst, ty, Bfind: U32 = u32, S32 = i32, U64 = u64, S64 = i64), T::U32, ty)
        }
        Opcode::Fns if ty == T::B32 => d.emit4(inst, d.handler::<Fns>(), ty, [T::B32, T::B32, T::S32]),
        Opcode::Bfe => {
            let handler = for_type!(d, inst, ty, Bfe: U32 = u32, S32 = i32, U64 = u64, S64 = i64);
            d.emit4(inst, handler, ty, [ty, T::U32, T::U32])
        }
        Opcode::Bfi => insert(d, inst, for_type!(d, inst, ty, Bfi: B32 = u32, B64 = u64), ty),
        Opcode::Szext if clamps(d, inst)? => {
            d.emit3(inst, for_type!(d, inst, ty, SzextClamp: U32 = u32, S32 = i32), ty, ty, T::U32)
        }
        Opcode::Szext => d.emit3(inst, for_type!(d, inst, ty, SzextWrap: U32 = u32, S32 = i32), ty, ty, T::U32),
        Opcode::Bmsk if ty == T::B32 => {
            let handler = if clamps(d, inst)? { d.handler::<BmskClamp>() } else { d.handler::<BmskWrap>() };
            d.emit3(inst, handler, ty, T::U32, T::U32)
        }
        _ => Err(wrong_type(d, inst, ty)),
    }
}

/// Returns true for `.clamp`, false for `.wrap`.
pub(in crate::alu) fn clamps(d: &Decoder, inst: &Instruction) -> Result<bool, Error> {
    match (inst.has("clamp"), inst.has("wrap")) {
        (clamp, wrap) if clamp != wrap => Ok(clamp),
        _ => Err(d.invalid(inst, "exactly one of .clamp and .wrap is needed")),
    }
}

fn insert(d: &mut Decoder, inst: &Instruction, handler: Handler, ty: T) -> Result<(), Error> {
    d.expect_operands(inst, 5)?;
    let (from, into) = (d.src(inst, 1, ty)?, d.src(inst, 2, ty)?);
    let (position, length) = (d.src(inst, 3, T::U32)?, d.src(inst, 4, T::U32)?);
    let dst = d.dst(inst, 0, ty)?;
    d.push(Op { dst, a: from, b: into, c: position, d: length, ..Op::new(handler) });
    Ok(())
}
