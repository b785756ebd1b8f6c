//! `add sub sad div rem abs neg min max`.

use warpfold_ptx::{Instruction, Opcode, ScalarType as T};

use super::divide::Divide;
use super::int::Int;
use crate::Error;
use crate::alu::define::{for_type, lane_ops};
use crate::alu::wrong_type;
use crate::decode::Decoder;

lane_ops! {
    Add<N: Int>(a: N, b: N) -> N = a.add(b);
    Sub<N: Int>(a: N, b: N) -> N = a.sub(b);
    AddSaturating(a: i32, b: i32) -> i32 = a.saturating_add(b);
    SubSaturating(a: i32, b: i32) -> i32 = a.saturating_sub(b);
    AddPacked(a: u32, b: u32) -> u32 = packed(a, b, u16::wrapping_add);
    Sad<N: Int>(a: N, b: N, c: N) -> N = c.add(if a < b { b.sub(a) } else { a.sub(b) });
    Div<N: Divide>(a: N, b: N) -> N = a.quotient(b);
    Rem<N: Divide>(a: N, b: N) -> N = a.remainder(b);
    Abs<N: Int>(a: N) -> N = a.abs();
    Neg<N: Int>(a: N) -> N = a.neg();
    Min<N: Int>(a: N, b: N) -> N = a.min(b);
    Max<N: Int>(a: N, b: N) -> N = a.max(b);
    MinRelu(a: i32, b: i32) -> i32 = a.min(b).max(0);
    MaxRelu(a: i32, b: i32) -> i32 = a.max(b).max(0);
    MinU16x2(a: u32, b: u32) -> u32 = packed(a, b, u16::min);
    MaxU16x2(a: u32, b: u32) -> u32 = packed(a, b, u16::max);
    MinS16x2(a: u32, b: u32) -> u32 = packed(a, b, |a, b| a.cast_signed().min(b.cast_signed()).cast_unsigned());
    MaxS16x2(a: u32, b: u32) -> u32 = packed(a, b, |a, b| a.cast_signed().max(b.cast_signed()).cast_unsigned());
    MinReluS16x2(a: u32, b: u32) -> u32 =
        packed(a, b, |a, b| a.cast_signed().min(b.cast_signed()).max(0).cast_unsigned());
    MaxReluS16x2(a: u32, b: u32) -> u32 =
        packed(a, b, |a, b| a.cast_signed().max(b.cast_signed()).max(0).cast_unsigned());
}

/// An operation on both halves.
#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "halves are cut out")]
fn packed(a: u32, b: u32, f: impl Fn(u16, u16) -> u16) -> u32 {
    u32::from(f(a as u16, b as u16)) | u32::from(f((a >> 16) as u16, (b >> 16) as u16)) << 16
}

/// Decodes the mnemonics of this file, without `.cc`.
pub(super) fn decode(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    let ty = d.ty(inst, 0)?;
    let saturating = inst.has("sat");
    let relu = inst.has("relu");
    match inst.opcode {
        Opcode::Add | Opcode::Sub if ty == T::S32 => d.expect_modifiers(inst, &["sat"])?,
        Opcode::Min | Opcode::Max if matches!(ty, T::S32 | T::S16x2) => d.expect_modifiers(inst, &["relu"])?,
        _ => d.expect_modifiers(inst, &[])?,
    }
    let handler = match (inst.opcode, ty) {
        (Opcode::Add, T::U16x2 | T::S16x2) => d.handler::<AddPacked>(),
        (Opcode::Add, _) if saturating => d.handler::<AddSaturating>(),
        (Opcode::Sub, _) if saturating => d.handler::<SubSaturating>(),
        (Opcode::Add, _) => {
            for_type!(d, inst, ty, Add: U16 = u16, S16 = u16, U32 = u32, S32 = u32, U64 = u64, S64 = u64)
        }
        (Opcode::Sub, _) => {
            for_type!(d, inst, ty, Sub: U16 = u16, S16 = u16, U32 = u32, S32 = u32, U64 = u64, S64 = u64)
        }
        (Opcode::Sad, _) => {
            let handler = for_type!(d, inst, ty, Sad: U16 = u16, S16 = i16, U32 = u32, S32 = i32, U64 = u64, S64 = i64);
            return d.emit4(inst, handler, ty, [ty; 3]);
        }
        (Opcode::Div, _) => {
            for_type!(d, inst, ty, Div: U16 = u16, S16 = i16, U32 = u32, S32 = i32, U64 = u64, S64 = i64)
        }
        (Opcode::Rem, _) => {
            for_type!(d, inst, ty, Rem: U16 = u16, S16 = i16, U32 = u32, S32 = i32, U64 = u64, S64 = i64)
        }
        (Opcode::Abs, _) => {
            let handler = for_type!(d, inst, ty, Abs: S16 = i16, S32 = i32, S64 = i64);
            return d.emit2(inst, handler, ty, ty);
        }
        (Opcode::Neg, _) => {
            let handler = for_type!(d, inst, ty, Neg: S16 = i16, S32 = i32, S64 = i64);
            return d.emit2(inst, handler, ty, ty);
        }
        (Opcode::Min, T::U16x2) => d.handler::<MinU16x2>(),
        (Opcode::Max, T::U16x2) => d.handler::<MaxU16x2>(),
        (Opcode::Min, T::S16x2) if relu => d.handler::<MinReluS16x2>(),
        (Opcode::Max, T::S16x2) if relu => d.handler::<MaxReluS16x2>(),
        (Opcode::Min, T::S16x2) => d.handler::<MinS16x2>(),
        (Opcode::Max, T::S16x2) => d.handler::<MaxS16x2>(),
        (Opcode::Min, T::S32) if relu => d.handler::<MinRelu>(),
        (Opcode::Max, T::S32) if relu => d.handler::<MaxRelu>(),
        (Opcode::Min, _) => {
            for_type!(d, inst, ty, Min: U16 = u16, S16 = i16, U32 = u32, S32 = i32, U64 = u64, S64 = i64)
        }
        (Opcode::Max, _) => {
            for_type!(d, inst, ty, Max: U16 = u16, S16 = i16, U32 = u32, S32 = i32, U64 = u64, S64 = i64)
        }
        _ => return Err(wrong_type(d, inst, ty)),
    };
    d.emit3(inst, handler, ty, ty, ty)
}
