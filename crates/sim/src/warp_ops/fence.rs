//! Fences, and `nanosleep`. Memory is sequentially consistent here: a fence only matters to the checks.

use crate::exec::machine::Machine;
use crate::exec::op::{LaneOp, Op};

/// `membar`, `fence`: `imm` holds the scope, and the order in the next byte.
pub(crate) struct Fence<const CHECK: bool>;
impl<const CHECK: bool> LaneOp for Fence<CHECK> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        if CHECK {
            m.check_fence(op.imm, mask);
        }
    }
}

/// `nanosleep`: a sign that the thread waits for another.
pub(crate) struct Sleep;
impl LaneOp for Sleep {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, _: &Op, _: u32) {
        m.waiting = true;
    }
}
