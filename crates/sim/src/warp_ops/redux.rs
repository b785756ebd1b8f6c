//! `redux.sync` (PTX ISA, "redux.sync").

use warpfold_ptx::{Instruction, ScalarType as T};

use super::groups;
use crate::Error;
use crate::decode::Decoder;
use crate::exec::block::lanes_of;
use crate::exec::machine::Machine;
use crate::exec::meeting::row;
use crate::exec::op::{LaneOp, Op};
use crate::exec::row::LANES;

/// An associative operation on 32-bit values.
trait Combine: 'static {
    fn combine(a: u32, b: u32) -> u32;
}

/// Folds `a` over each group in lane order; `b` is the row of the members.
struct Redux<C>(std::marker::PhantomData<C>);
impl<C: Combine> LaneOp for Redux<C> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operands.
        unsafe {
            let a = m.read::<u32>(op.a);
            groups(m, op.b, mask, |m, group| {
                let all = lanes_of(group).map(|lane| a[lane as usize]).reduce(C::combine).unwrap_or(0);
                m.write(op.dst, &[all; LANES], group);
            });
        }
    }
}

macro_rules! combine {
    ($($name:ident = |$a:ident, $b:ident| $body:expr;)*) => {$(
        struct $name;
        impl Combine for $name {
            #[inline(always)]
            fn combine($a: u32, $b: u32) -> u32 { $body }
        }
    )*};
}

combine! {
    Add = |a, b| a.wrapping_add(b);
    MinU = |a, b| a.min(b);
    MaxU = |a, b| a.max(b);
    MinS = |a, b| (a as i32).min(b as i32) as u32;
    MaxS = |a, b| (a as i32).max(b as i32) as u32;
    And = |a, b| a & b;
    Or = |a, b| a | b;
    Xor = |a, b| a ^ b;
}

/// Decodes `redux.sync.op.type d, a, members`.
pub(crate) fn decode(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    d.expect_modifiers(inst, &["sync", "add", "min", "max", "and", "or", "xor"])?;
    d.expect_operands(inst, 3)?;
    let ty = d.ty(inst, 0)?;
    let op = inst.modifiers.iter().map(|m| m.as_str()).find(|m| *m != "sync").unwrap_or("");
    let handler = match (op, ty) {
        ("add", T::U32 | T::S32) => d.handler::<Redux<Add>>(),
        ("min", T::U32) => d.handler::<Redux<MinU>>(),
        ("max", T::U32) => d.handler::<Redux<MaxU>>(),
        ("min", T::S32) => d.handler::<Redux<MinS>>(),
        ("max", T::S32) => d.handler::<Redux<MaxS>>(),
        ("and", T::B32) => d.handler::<Redux<And>>(),
        ("or", T::B32) => d.handler::<Redux<Or>>(),
        ("xor", T::B32) => d.handler::<Redux<Xor>>(),
        _ => return Err(d.unsupported(inst, "no such redux before sm_100")),
    };
    let a = d.src(inst, 1, ty)?;
    let b = d.src(inst, 2, T::B32)?;
    let dst = d.dst(inst, 0, ty)?;
    let slots = ([row(a, 1), row(b, 1), None], [row(dst, 1), None]);
    d.shared_exchange(inst, Op { dst, a, b, ..Op::new(handler) }, b, slots)
}
