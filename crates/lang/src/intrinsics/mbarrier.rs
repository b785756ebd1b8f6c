//! Barriers in shared memory (PTX ISA, "mbarrier"), and the fences beside them.

use warpfold_ptx::{self as ptx, Opcode, ScalarType};

use super::memory::{Location, address};
use crate::recorder::{Raw, Recorder};
use crate::types::Type;

/// `mbarrier.init`
pub(crate) fn init(r: &mut Recorder, barrier: Location, arrivals: Raw) {
    let operands = vec![address(r, barrier), r.operand(Type::U32, arrivals)];
    r.push(Opcode::Mbarrier, &["init", "shared", "b64"], operands);
}

/// `mbarrier.inval`
pub(crate) fn invalidate(r: &mut Recorder, barrier: Location) {
    let operands = vec![address(r, barrier)];
    r.push(Opcode::Mbarrier, &["inval", "shared", "b64"], operands);
}

/// `mbarrier.arrive`
pub(crate) fn arrive(r: &mut Recorder, barrier: Location) {
    r.require("an arrival without a token", 80, (7, 1));
    let operands = vec![ptx::Operand::Sink, address(r, barrier)];
    r.push(Opcode::Mbarrier, &["arrive", "shared", "b64"], operands);
}

/// `mbarrier.arrive` at a barrier of another block of the cluster, by its address in
/// `shared::cluster`.
pub(crate) fn arrive_remote(r: &mut Recorder, barrier: Raw) {
    r.require("an arrival at another block", 90, (8, 0));
    let ptx::Operand::Name { name, .. } = r.in_register(Type::U32, barrier) else {
        unreachable!("`in_register` names a register")
    };
    let base = ptx::AddressBase::Name(name);
    let address = ptx::Operand::Address(ptx::Address { base, offset: 0, coordinates: Vec::new() });
    // Without a scope it is a release for the block alone. With `.release.cluster` ptxas 13.0 puts
    // a fence of the whole device in front of every arrival: a product of 4096^3 bf16 went from 478
    // to more than 700 TFLOP/s without (H200, 2026-11-20).
    let modifiers = ["arrive", "shared::cluster", "b64"];
    r.push(Opcode::Mbarrier, &modifiers, vec![ptx::Operand::Sink, address]);
}

/// `mbarrier.arrive.expect_tx`
pub(crate) fn arrive_expect(r: &mut Recorder, barrier: Location, bytes: Raw) {
    r.require("an arrival that expects bytes", 90, (8, 0));
    let operands = vec![ptx::Operand::Sink, address(r, barrier), r.operand(Type::U32, bytes)];
    r.push(Opcode::Mbarrier, &["arrive", "expect_tx", "shared", "b64"], operands);
}

/// `mbarrier.try_wait.parity`, which may suspend the thread, or `test_wait` on targets without it;
/// returns true if the phase of this parity has completed.
pub(crate) fn try_wait(r: &mut Recorder, barrier: Location, parity: Raw) -> Raw {
    let can_suspend = r.target.has(90, (7, 8));
    let (wait, arch, version) = if can_suspend { ("try_wait", 90, (7, 8)) } else { ("test_wait", 80, (7, 1)) };
    r.require("a wait at an mbarrier", arch, version);
    let operands = vec![address(r, barrier), r.operand(Type::U32, parity)];
    r.define(ScalarType::Pred, Opcode::Mbarrier, &[wait, "parity", "shared", "b64"], operands)
}

/// `fence.mbarrier_init`: makes initialised barriers visible to the cluster and to copies.
pub(crate) fn fence_init(r: &mut Recorder) {
    r.require("fence.mbarrier_init", 90, (8, 0));
    r.push(Opcode::Fence, &["mbarrier_init", "release", "cluster"], vec![]);
}

/// `fence.proxy.async.shared::cta`
pub(crate) fn fence_async(r: &mut Recorder) {
    r.require("fence.proxy.async", 90, (8, 0));
    r.push(Opcode::Fence, &["proxy", "async", "shared::cta"], vec![]);
}
