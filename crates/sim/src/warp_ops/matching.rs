//! `match.sync` (PTX ISA, "match.sync").

use warpfold_ptx::{Instruction, ScalarType as T};

use super::groups;
use crate::Error;
use crate::decode::Decoder;
use crate::exec::machine::Machine;
use crate::exec::meeting::{predicate, row};
use crate::exec::op::{LaneOp, NONE, Op};
use crate::exec::row::{ALL_LANES, LANES, Word};

/// The lanes with the same value as each lane; `b` is the row of the members.
struct MatchAny<W>(std::marker::PhantomData<W>);
impl<W: Word> LaneOp for MatchAny<W> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operands.
        unsafe {
            let a = m.read::<W>(op.a);
            groups(m, op.b, mask, |m, group| {
                let mut out = [0u32; LANES];
                for lane in 0..LANES {
                    for other in 0..LANES {
                        out[lane] |= u32::from(a[lane] == a[other]) << other;
                    }
                    out[lane] &= group;
                }
                m.write(op.dst, &out, group);
            });
        }
    }
}

/// All lanes if they have the same value, else none; `dst2` is true in the first case.
struct MatchAll<W>(std::marker::PhantomData<W>);
impl<W: Word> LaneOp for MatchAll<W> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operands.
        unsafe {
            let a = m.read::<W>(op.a);
            groups(m, op.b, mask, |m, group| {
                let first = a[group.trailing_zeros() as usize];
                let same = (0..LANES).all(|lane| group >> lane & 1 == 0 || a[lane] == first);
                if op.dst != NONE {
                    m.write(op.dst, &[if same { group } else { 0 }; LANES], group);
                }
                m.set_predicate(op.dst2, if same { ALL_LANES } else { 0 }, group);
            });
        }
    }
}

/// Decodes `match.any.sync.type d, a, members` and `match.all.sync.type d|p, a, members`.
pub(crate) fn decode(d: &mut Decoder, inst: &Instruction) -> Result<(), Error> {
    d.expect_modifiers(inst, &["sync", "all", "any"])?;
    d.expect_operands(inst, 3)?;
    let ty = d.ty(inst, 0)?;
    let a = d.src(inst, 1, ty)?;
    let b = d.src(inst, 2, T::B32)?;
    let handler = match (inst.has("any"), ty.bits()) {
        (true, 32) => d.handler::<MatchAny<u32>>(),
        (true, 64) => d.handler::<MatchAny<u64>>(),
        (false, 32) => d.handler::<MatchAll<u32>>(),
        (false, 64) => d.handler::<MatchAll<u64>>(),
        _ => return Err(d.invalid(inst, "match takes 32 or 64 bits")),
    };
    let (dst, dst2) = d.value_and_predicate(inst)?;
    let slots = ([row(a, ty.bits() / 32), row(b, 1), None], [row(dst, 1), predicate(dst2)]);
    d.shared_exchange(inst, Op { dst, dst2, a, b, ..Op::new(handler) }, b, slots)
}
