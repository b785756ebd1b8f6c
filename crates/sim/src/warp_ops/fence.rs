//! Fences, and `nanosleep`.
//!
//! Inside a block a fence has nothing to do: one host thread runs it, in order. Towards blocks on other host threads it
//! is a host fence of the strongest kind.

use crate::exec::machine::Machine;
use crate::exec::op::{LaneOp, Op};

/// `membar`, `fence`: `imm` holds the scope. The checks take a fence that only acquires or releases for one that does both.
pub(crate) struct Fence<const CHECK: bool>;
impl<const CHECK: bool> LaneOp for Fence<CHECK> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        if CHECK {
            m.check_fence(op.imm, mask);
        }
    }
}

/// `fence.proxy.async` for shared memory. Copies land at waits here, so that there is nothing to do but to tell the checks.
pub(crate) struct Proxy;
impl LaneOp for Proxy {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, _: &Op, _: u32) {
        m.check_proxy_fence();
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
