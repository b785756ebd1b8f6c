//! `selp slct`.

use std::marker::PhantomData;

use warpfold_ptx::{Instruction, ScalarType as T};

use super::view::Flushed;
use crate::Error;
use crate::alu::define::{for_type, lane_ops};
use crate::alu::integer::int::Int;
use crate::alu::wrong_type;
use crate::decode::Decoder;
use crate::exec::machine::Machine;
use crate::exec::op::{LaneOp, Op};
use crate::exec::row::{Lane, blend};

/// `dst = predicate c ? a : b`; `imm` is 1 if the predicate is negated.
struct Select<V>(PhantomData<V>);
impl<V: Lane> LaneOp for Select<V> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder chose registers of this width, and a predicate of the frame.
        unsafe {
            let condition = m.predicate(op.c) ^ if op.imm != 0 { u32::MAX } else { 0 };
            let (a, b) = (&*m.lanes::<V::Bits>(op.a), &*m.lanes::<V::Bits>(op.b));
            m.write(op.dst, &blend(condition, a, b), mask);
        }
    }
}

lane_ops! {
    SelectSign<N: Int>(a: N, b: N, c: i32) -> N = if c >= 0 { a } else { b };
    SelectFloat<N: Int>(a: N, b: N, c: f32) -> N = if c >= 0.0 { a } else { b };
    SelectFlushed<N: Int>(a: N, b: N, c: Flushed) -> N = if c.0 >= 0.0 { a } else { b };
}

/// Decodes `selp`.
pub(super) fn selp(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    d.expect_modifiers(inst, &[])?;
    d.expect_operands(inst, 4)?;
    let ty = bits(d, inst, d.ty(inst, 0)?)?;
    let handler = for_type!(d, inst, ty, Select: B16 = u32, B32 = u32, B64 = u64);
    let ty = d.ty(inst, 0)?;
    let (a, b) = (d.src(inst, 1, ty)?, d.src(inst, 2, ty)?);
    let (c, negated) = d.pred_src(inst, 3)?;
    let dst = d.dst(inst, 0, ty)?;
    d.push(Op { dst, a, b, c, imm: i64::from(negated), ..Op::new(handler) });
    Ok(())
}

/// Decodes `slct`.
pub(super) fn slct(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    let (ty, condition) = (d.ty(inst, 0)?, d.ty(inst, 1)?);
    d.expect_modifiers(inst, if condition == T::F32 { &["ftz"] } else { &[] })?;
    let untyped = bits(d, inst, ty)?;
    let handler = match condition {
        T::S32 => for_type!(d, inst, untyped, SelectSign: B16 = u16, B32 = u32, B64 = u64),
        T::F32 if inst.has("ftz") => for_type!(d, inst, untyped, SelectFlushed: B16 = u16, B32 = u32, B64 = u64),
        T::F32 => for_type!(d, inst, untyped, SelectFloat: B16 = u16, B32 = u32, B64 = u64),
        other => return Err(wrong_type(d, inst, other)),
    };
    d.emit4(inst, handler, ty, [ty, ty, condition])
}

/// The bit type that is moved for an instruction type.
fn bits(d: &Decoder, inst: &Instruction, ty: T) -> Result<T, Error> {
    match ty {
        T::B16 | T::U16 | T::S16 => Ok(T::B16),
        T::B32 | T::U32 | T::S32 | T::F32 => Ok(T::B32),
        T::B64 | T::U64 | T::S64 | T::F64 => Ok(T::B64),
        other => Err(wrong_type(d, inst, other)),
    }
}
