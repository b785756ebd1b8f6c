//! Barriers, fences and waiting (PTX ISA, "Parallel Synchronization and Communication Instructions").

use warpfold_ptx::{self as ptx, Opcode, ScalarType};

use crate::ErrorKind;
use crate::memory::Scope;
use crate::recorder::{Raw, Recorder};
use crate::types::Type;

/// The block's barriers: 0 to 15.
const NUM_BARRIERS: u32 = 16;

fn barrier_operands(r: &mut Recorder, id: u32, threads: Option<u32>) -> Vec<ptx::Operand> {
    if id >= NUM_BARRIERS {
        let (what, value) = ("the barrier".to_owned(), id.to_string());
        r.fail(ErrorKind::OutOfRange { what, value, expected: "0 to 15".to_owned() });
    }
    if let Some(n) = threads.filter(|n| *n == 0 || n % 32 != 0) {
        let (what, value) = ("the barrier's thread count".to_owned(), n.to_string());
        r.fail(ErrorKind::OutOfRange { what, value, expected: "a positive multiple of the warp size".to_owned() });
    }
    let number = |n: u32| ptx::Operand::Immediate(ptx::Immediate::Int(n.into()));
    std::iter::once(id).chain(threads).map(number).collect()
}

/// `bar.sync`
pub(crate) fn barrier_sync(r: &mut Recorder, id: u32, threads: Option<u32>) {
    let operands = barrier_operands(r, id, threads);
    r.push(Opcode::Bar, &["sync"], operands);
}

/// `bar.arrive`
pub(crate) fn barrier_arrive(r: &mut Recorder, id: u32, threads: u32) {
    let operands = barrier_operands(r, id, Some(threads));
    r.push(Opcode::Bar, &["arrive"], operands);
}

/// What a barrier tells about a predicate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Census {
    /// In how many threads it holds.
    Count,
    /// Whether it holds in all.
    All,
    /// Whether it holds in any.
    Any,
}

/// `bar.red`: a barrier that also counts or combines a predicate over the block.
pub(crate) fn barrier_census(r: &mut Recorder, census: Census, condition: Raw) -> Raw {
    let (op, ty, name) = match census {
        Census::Count => ("popc", ScalarType::B32, "u32"),
        Census::All => ("and", ScalarType::Pred, "pred"),
        Census::Any => ("or", ScalarType::Pred, "pred"),
    };
    let mut operands = barrier_operands(r, 0, None);
    operands.push(r.in_register(Type::Bool, condition));
    r.define(ty, Opcode::Bar, &["red", op, name], operands)
}

/// `bar.warp.sync`
pub(crate) fn warp_sync(r: &mut Recorder, mask: Raw) {
    let mask = r.operand(Type::U32, mask);
    r.push(Opcode::Bar, &["warp", "sync"], vec![mask]);
}

/// `fence.acq_rel`
pub(crate) fn fence(r: &mut Recorder, scope: Scope) {
    let scope = scope_name(r, scope);
    r.push(Opcode::Fence, &["acq_rel", scope], vec![]);
}

/// `fence.sc`
pub(crate) fn fence_sequential(r: &mut Recorder, scope: Scope) {
    let scope = scope_name(r, scope);
    r.push(Opcode::Fence, &["sc", scope], vec![]);
}

/// The name of a scope, which the target must have.
pub(crate) fn scope_name(r: &mut Recorder, scope: Scope) -> &'static str {
    match scope {
        Scope::Block => "cta",
        Scope::Cluster => {
            r.require("the cluster scope", 90, (7, 8));
            "cluster"
        }
        Scope::Gpu => "gpu",
        Scope::System => "sys",
    }
}

/// `nanosleep`
pub(crate) fn nanosleep(r: &mut Recorder, nanoseconds: Raw) {
    let operand = r.operand(Type::U32, nanoseconds);
    r.push(Opcode::Nanosleep, &["u32"], vec![operand]);
}

/// `griddepcontrol.wait`
pub(crate) fn wait_for_dependencies(r: &mut Recorder) {
    r.require("griddepcontrol", 90, (7, 8));
    r.push(Opcode::Griddepcontrol, &["wait"], vec![]);
}

/// `griddepcontrol.launch_dependents`
pub(crate) fn launch_dependents(r: &mut Recorder) {
    r.require("griddepcontrol", 90, (7, 8));
    r.push(Opcode::Griddepcontrol, &["launch_dependents"], vec![]);
}
