//! Fences, the order of programmatic launches, and `nanosleep`.
//!
//! Inside a block a fence has nothing to do: one host thread runs it, in order. Towards blocks on
//! other host threads it is a host fence of the strongest kind.

use crate::check::FenceKind;
use crate::exec::machine::Machine;
use crate::exec::op::{LaneOp, Op};
use crate::exec::row::LANES;

/// Shift in [`Op::imm`], above the scope, of the fence's kind: [`FenceKind::Both`] by default.
const KIND_SHIFT: u32 = 3;

/// A kind of fence in [`Op::imm`].
pub(crate) const fn kind_bits(kind: FenceKind) -> i64 {
    let number = match kind {
        FenceKind::Both => 0,
        FenceKind::Sequential => 1,
        FenceKind::Acquire => 2,
        FenceKind::Release => 3,
    };
    number << KIND_SHIFT
}

const fn kind_of(imm: i64) -> FenceKind {
    match imm >> KIND_SHIFT {
        0 => FenceKind::Both,
        1 => FenceKind::Sequential,
        2 => FenceKind::Acquire,
        _ => FenceKind::Release,
    }
}

/// `membar`, `fence`: `imm` holds the scope and the kind.
pub(crate) struct Fence<const CHECK: bool>;
impl<const CHECK: bool> LaneOp for Fence<CHECK> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        let scope = op.imm & ((1 << KIND_SHIFT) - 1);
        m.fence_l1(scope);
        if CHECK {
            m.check_fence(scope, kind_of(op.imm), mask);
        }
    }
}

/// Flag of a proxy fence for shared memory.
pub(crate) const SHARED: i64 = 1;
/// Flag of a proxy fence for global memory.
pub(crate) const GLOBAL: i64 = 2;

/// `fence.proxy.async`; `imm` has the flags for the memories. Copies complete at waits here, so
/// only the checks are told.
pub(crate) struct Proxy;
impl LaneOp for Proxy {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, _: u32) {
        m.check_proxy_fence(op.imm & SHARED != 0, op.imm & GLOBAL != 0);
    }
}

/// Additional effect of `fence.proxy.tensormap::generic.release` beyond a fence.
pub(crate) struct ReleaseMaps;
impl LaneOp for ReleaseMaps {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, _: &Op, _: u32) {
        m.check_maps_released();
    }
}

/// Additional effect of `fence.proxy.tensormap::generic.acquire` beyond a fence: `a` is the map's
/// address.
pub(crate) struct AcquireMap;
impl LaneOp for AcquireMap {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operand.
        let at = unsafe { m.read::<u64>(op.a) };
        for lane in (0..LANES).filter(|lane| mask >> lane & 1 != 0) {
            m.check_map_acquired(at[lane]);
        }
    }
}

/// `griddepcontrol.wait`: the launches that this one depends on are over and visible before it
/// begins.
pub(crate) struct WaitForDependencies;
impl LaneOp for WaitForDependencies {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        m.check_dependencies_waited_for(op, mask);
    }
}

/// `griddepcontrol.launch_dependents`: the next launch begins when this one is over.
pub(crate) struct LaunchDependents;
impl LaneOp for LaunchDependents {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, _: &Op, _: u32) {
        m.check_dependents_launched();
    }
}

/// `nanosleep`: a hint that the thread waits for another.
pub(crate) struct Sleep;
impl LaneOp for Sleep {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, _: &Op, _: u32) {
        m.waiting = true;
    }
}
