//! Exchange between the lanes of a warp, and fences.
//!
//! An exchange runs once all lanes of its member mask are there; lanes with different member masks
//! form groups that do not see one another.

pub(crate) mod elect;
pub(crate) mod fence;
pub(crate) mod matching;
pub(crate) mod redux;
pub(crate) mod shuffle;
pub(crate) mod vote;

use warpfold_ptx::{Instruction, Operand, ScalarType};

use crate::Error;
use crate::decode::Decoder;
use crate::exec::machine::Machine;
use crate::exec::op::NONE;
use crate::exec::row::LANES;

impl Decoder<'_> {
    /// The destinations of `d|p, …` or `d, …`: a 32-bit row, and a predicate or [`NONE`].
    fn value_and_predicate(&mut self, inst: &Instruction) -> Result<(u32, u32), Error> {
        match self.operand(inst, 0)? {
            Operand::Pair(value, predicate) => {
                let dst = self.destination(inst, value, ScalarType::B32)?;
                Ok((dst, self.predicate_destination(inst, predicate)?))
            }
            value => Ok((self.destination(inst, value, ScalarType::B32)?, NONE)),
        }
    }
}

/// Calls `f` for each group of lanes of `mask` with the same member mask.
///
/// # Safety
/// `members` is a row of the current frame.
#[inline(always)]
pub(crate) unsafe fn groups(m: &mut Machine, members: u32, mask: u32, mut f: impl FnMut(&mut Machine, u32)) {
    // SAFETY: passed on.
    let named = unsafe { m.read::<u32>(members) };
    let mut rest = mask;
    while rest != 0 {
        let name = named[rest.trailing_zeros() as usize];
        let mut group = 0;
        for lane in 0..LANES {
            group |= u32::from(named[lane] == name) << lane;
        }
        group &= rest;
        f(m, group);
        rest &= !group;
    }
}
