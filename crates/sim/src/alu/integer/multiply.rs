//! `mul mad mul24 mad24 dp4a dp2a`.

use warpfold_ptx::{Instruction, Opcode, ScalarType as T};

use super::int::{Int, Widen};
use crate::Error;
use crate::alu::define::{for_type, lane_ops};
use crate::decode::Decoder;
use crate::exec::op::Handler;

lane_ops! {
    MulLo<N: Int>(a: N, b: N) -> N = a.mul(b);
    MulHi<N: Int>(a: N, b: N) -> N = a.mul_hi(b);
    MulWide<N: Widen>(a: N, b: N) -> N::Wide = a.widen().mul(b.widen());
    MadLo<N: Int>(a: N, b: N, c: N) -> N = a.mul(b).add(c);
    MadHi<N: Int>(a: N, b: N, c: N) -> N = a.mul_hi(b).add(c);
    MadWide<N: Widen>(a: N, b: N, c: N::Wide) -> N::Wide = a.widen().mul(b.widen()).add(c);
    MadHiSaturating(a: i32, b: i32, c: i32) -> i32 = a.mul_hi(b).saturating_add(c);
    Mul24Lo<N: Short>(a: N, b: N) -> u32 = low(product24(a, b));
    Mul24Hi<N: Short>(a: N, b: N) -> u32 = high(product24(a, b));
    Mad24Lo<N: Short>(a: N, b: N, c: u32) -> u32 = low(product24(a, b)).wrapping_add(c);
    Mad24Hi<N: Short>(a: N, b: N, c: u32) -> u32 = high(product24(a, b)).wrapping_add(c);
    Mad24HiSaturating(a: i32, b: i32, c: i32) -> i32 = high(product24(a, b)).cast_signed().saturating_add(c);
    Dp4aUU(a: u32, b: u32, c: u32) -> u32 = dot4(a, b, c, unsigned8, unsigned8);
    Dp4aUS(a: u32, b: u32, c: u32) -> u32 = dot4(a, b, c, unsigned8, signed8);
    Dp4aSU(a: u32, b: u32, c: u32) -> u32 = dot4(a, b, c, signed8, unsigned8);
    Dp4aSS(a: u32, b: u32, c: u32) -> u32 = dot4(a, b, c, signed8, signed8);
    Dp2aLoUU(a: u32, b: u32, c: u32) -> u32 = dot2(a, b, c, unsigned16, unsigned8);
    Dp2aLoUS(a: u32, b: u32, c: u32) -> u32 = dot2(a, b, c, unsigned16, signed8);
    Dp2aLoSU(a: u32, b: u32, c: u32) -> u32 = dot2(a, b, c, signed16, unsigned8);
    Dp2aLoSS(a: u32, b: u32, c: u32) -> u32 = dot2(a, b, c, signed16, signed8);
    Dp2aHiUU(a: u32, b: u32, c: u32) -> u32 = dot2(a, b >> 16, c, unsigned16, unsigned8);
    Dp2aHiUS(a: u32, b: u32, c: u32) -> u32 = dot2(a, b >> 16, c, unsigned16, signed8);
    Dp2aHiSU(a: u32, b: u32, c: u32) -> u32 = dot2(a, b >> 16, c, signed16, unsigned8);
    Dp2aHiSS(a: u32, b: u32, c: u32) -> u32 = dot2(a, b >> 16, c, signed16, signed8);
}

/// A 32-bit integer of which 24 bits are used.
trait Short: Int {
    /// The value of its lower 24 bits.
    fn low24(self) -> i64;
}

impl Short for u32 {
    #[inline(always)]
    fn low24(self) -> i64 {
        i64::from(self & 0xff_ffff)
    }
}

impl Short for i32 {
    #[inline(always)]
    fn low24(self) -> i64 {
        i64::from(self << 8 >> 8)
    }
}

#[inline(always)]
fn product24<N: Short>(a: N, b: N) -> i64 {
    a.low24() * b.low24()
}

/// Bits 31..0 of a product.
#[inline(always)]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the bits are cut out")]
fn low(product: i64) -> u32 {
    product as u32
}

/// Bits 47..16 of a product.
#[inline(always)]
fn high(product: i64) -> u32 {
    low(product >> 16)
}

/// Byte `i` of a word, zero-extended.
#[inline(always)]
fn unsigned8(word: u32, i: u32) -> u32 {
    word >> (8 * i) & 0xff
}

/// Byte `i` of a word, sign-extended.
#[inline(always)]
fn signed8(word: u32, i: u32) -> u32 {
    ((word << (24 - 8 * i)).cast_signed() >> 24).cast_unsigned()
}

/// Half `i` of a word, zero-extended.
#[inline(always)]
fn unsigned16(word: u32, i: u32) -> u32 {
    word >> (16 * i) & 0xffff
}

/// Half `i` of a word, sign-extended.
#[inline(always)]
fn signed16(word: u32, i: u32) -> u32 {
    ((word << (16 - 16 * i)).cast_signed() >> 16).cast_unsigned()
}

#[inline(always)]
fn dot4(a: u32, b: u32, c: u32, of_a: impl Fn(u32, u32) -> u32, of_b: impl Fn(u32, u32) -> u32) -> u32 {
    (0..4).fold(c, |sum, i| sum.wrapping_add(of_a(a, i).wrapping_mul(of_b(b, i))))
}

#[inline(always)]
fn dot2(a: u32, b: u32, c: u32, of_a: impl Fn(u32, u32) -> u32, of_b: impl Fn(u32, u32) -> u32) -> u32 {
    (0..2).fold(c, |sum, i| sum.wrapping_add(of_a(a, i).wrapping_mul(of_b(b, i))))
}

/// Decodes `mul` and `mad`, without `.cc`.
pub(super) fn decode(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    let ty = d.ty(inst, 0)?;
    d.expect_modifiers(inst, &["lo", "hi", "wide", "sat"])?;
    let (mul, saturating) = (inst.opcode == Opcode::Mul, inst.has("sat"));
    if saturating && (mul || ty != T::S32 || !inst.has("hi")) {
        return Err(d.invalid(inst, ".sat is only for mad.hi.s32"));
    }
    let handler = match (half(d, inst)?, mul) {
        ("lo", true) => for_type!(d, inst, ty, MulLo: U16 = u16, S16 = u16, U32 = u32, S32 = u32, U64 = u64, S64 = u64),
        ("lo", false) => {
            for_type!(d, inst, ty, MadLo: U16 = u16, S16 = u16, U32 = u32, S32 = u32, U64 = u64, S64 = u64)
        }
        ("hi", true) => for_type!(d, inst, ty, MulHi: U16 = u16, S16 = i16, U32 = u32, S32 = i32, U64 = u64, S64 = i64),
        ("hi", false) if saturating => d.handler::<MadHiSaturating>(),
        ("hi", false) => {
            for_type!(d, inst, ty, MadHi: U16 = u16, S16 = i16, U32 = u32, S32 = i32, U64 = u64, S64 = i64)
        }
        (_, true) => for_type!(d, inst, ty, MulWide: U16 = u16, S16 = i16, U32 = u32, S32 = i32),
        (_, false) => for_type!(d, inst, ty, MadWide: U16 = u16, S16 = i16, U32 = u32, S32 = i32),
    };
    let result = if inst.has("wide") { doubled(ty) } else { ty };
    if mul { d.emit3(inst, handler, result, ty, ty) } else { d.emit4(inst, handler, result, [ty, ty, result]) }
}

/// Decodes `mul24` and `mad24`.
pub(super) fn decode24(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    let ty = d.ty(inst, 0)?;
    d.expect_modifiers(inst, &["lo", "hi", "sat"])?;
    let (mul, saturating) = (inst.opcode == Opcode::Mul24, inst.has("sat"));
    if saturating && (mul || ty != T::S32 || !inst.has("hi")) {
        return Err(d.invalid(inst, ".sat is only for mad24.hi.s32"));
    }
    let handler = match (half(d, inst)?, mul) {
        ("lo", true) => for_type!(d, inst, ty, Mul24Lo: U32 = u32, S32 = i32),
        ("lo", false) => for_type!(d, inst, ty, Mad24Lo: U32 = u32, S32 = i32),
        (_, true) => for_type!(d, inst, ty, Mul24Hi: U32 = u32, S32 = i32),
        (_, false) if saturating => d.handler::<Mad24HiSaturating>(),
        (_, false) => for_type!(d, inst, ty, Mad24Hi: U32 = u32, S32 = i32),
    };
    if mul { d.emit3(inst, handler, ty, ty, ty) } else { d.emit4(inst, handler, ty, [ty; 3]) }
}

/// Decodes `dp4a` and `dp2a`.
pub(super) fn decode_dot(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    let signed = |ty: T| match ty {
        T::S32 => Ok(true),
        T::U32 => Ok(false),
        other => Err(crate::alu::wrong_type(d, inst, other)),
    };
    let signs = (signed(d.ty(inst, 0)?)?, signed(d.ty(inst, 1)?)?);
    let handler: Handler = if inst.opcode == Opcode::Dp4a {
        d.expect_modifiers(inst, &[])?;
        match signs {
            (false, false) => d.handler::<Dp4aUU>(),
            (false, true) => d.handler::<Dp4aUS>(),
            (true, false) => d.handler::<Dp4aSU>(),
            (true, true) => d.handler::<Dp4aSS>(),
        }
    } else {
        d.expect_modifiers(inst, &["lo", "hi"])?;
        match (half(d, inst)? == "hi", signs) {
            (false, (false, false)) => d.handler::<Dp2aLoUU>(),
            (false, (false, true)) => d.handler::<Dp2aLoUS>(),
            (false, (true, false)) => d.handler::<Dp2aLoSU>(),
            (false, (true, true)) => d.handler::<Dp2aLoSS>(),
            (true, (false, false)) => d.handler::<Dp2aHiUU>(),
            (true, (false, true)) => d.handler::<Dp2aHiUS>(),
            (true, (true, false)) => d.handler::<Dp2aHiSU>(),
            (true, (true, true)) => d.handler::<Dp2aHiSS>(),
        }
    };
    d.emit4(inst, handler, T::B32, [T::B32; 3])
}

/// Returns the part of the product that is written: one of `lo hi wide`.
pub(super) fn half(d: &Decoder, inst: &Instruction) -> Result<&'static str, Error> {
    let mut parts = ["lo", "hi", "wide"].into_iter().filter(|part| inst.has(part));
    match (parts.next(), parts.next()) {
        (Some(part), None) => Ok(part),
        _ => Err(d.invalid(inst, "exactly one of .lo, .hi and .wide is needed")),
    }
}

/// The type of a `.wide` result.
fn doubled(ty: T) -> T {
    match ty {
        T::U16 => T::U32,
        T::S16 => T::S32,
        T::U32 => T::U64,
        _ => T::S64,
    }
}
