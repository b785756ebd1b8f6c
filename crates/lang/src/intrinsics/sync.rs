//! Barriers, fences and waiting (PTX ISA, "Parallel Synchronization and Communication
//! Instructions").

use warpfold_ptx::{self as ptx, Opcode, ScalarType};

use crate::ErrorKind;
use crate::kernel::Threads;
use crate::memory::Scope;
use crate::recorder::{Raw, Recorder};
use crate::types::Type;

/// The block's barriers: 0 to 15.
const NUM_BARRIERS: u32 = 16;

/// Notes an error if the barrier's number or its number of threads is invalid.
pub(crate) fn check_barrier(r: &mut Recorder, id: u32, threads: u32) {
    let _ = barrier_operands(r, id, Some(threads));
}

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

/// `bar.sync` of a barrier that is known when the kernel runs.
pub(crate) fn barrier_sync_of(r: &mut Recorder, id: Raw, threads: u32) {
    let threads = ptx::Operand::Immediate(ptx::Immediate::Int(threads.into()));
    let operands = vec![r.operand(Type::U32, id), threads];
    r.push(Opcode::Bar, &["sync"], operands);
}

/// `bar.arrive` at a barrier that is known when the kernel runs.
pub(crate) fn barrier_arrive_of(r: &mut Recorder, id: Raw, threads: u32) {
    let threads = ptx::Operand::Immediate(ptx::Immediate::Int(threads.into()));
    let operands = vec![r.operand(Type::U32, id), threads];
    r.push(Opcode::Bar, &["arrive"], operands);
}

/// `bar.arrive`
pub(crate) fn barrier_arrive(r: &mut Recorder, id: u32, threads: u32) {
    let operands = barrier_operands(r, id, Some(threads));
    r.push(Opcode::Bar, &["arrive"], operands);
}

/// Result of a barrier's reduction of a predicate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Census {
    /// Number of threads for which the predicate is true.
    Count,
    /// True if the predicate is true for all threads.
    All,
    /// True if the predicate is true for any thread.
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

/// The PTX name of a scope; notes an error if the target lacks it.
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

/// Notes that the kernel needs clusters.
pub(crate) fn require_clusters(r: &mut Recorder) {
    r.require("a cluster", 90, (7, 8));
}

/// `barrier.cluster.arrive`
pub(crate) fn cluster_arrive(r: &mut Recorder) {
    require_clusters(r);
    r.push(Opcode::Barrier, &["cluster", "arrive", "aligned"], vec![]);
}

/// `barrier.cluster.arrive.relaxed`
pub(crate) fn cluster_arrive_relaxed(r: &mut Recorder) {
    r.require("a relaxed arrival at a cluster's barrier", 90, (8, 0));
    r.push(Opcode::Barrier, &["cluster", "arrive", "relaxed", "aligned"], vec![]);
}

/// `barrier.cluster.wait`
pub(crate) fn cluster_wait(r: &mut Recorder) {
    require_clusters(r);
    r.push(Opcode::Barrier, &["cluster", "wait", "aligned"], vec![]);
}

/// `mapa`: the address in `shared::cluster` of a place in this block's shared memory, in the block
/// of a rank.
pub(crate) fn map_to_block(r: &mut Recorder, address: Raw, rank: Raw) -> Raw {
    require_clusters(r);
    let operands = vec![r.in_register(Type::U32, address), r.operand(Type::U32, rank)];
    r.define(ScalarType::B32, Opcode::Mapa, &["shared::cluster", "u32"], operands)
}

/// Direction of a `setmaxnreg`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Give,
    Take,
}

/// `setmaxnreg`
pub(crate) fn set_registers(r: &mut Recorder, direction: Direction, count: u32) {
    r.require_specific("setmaxnreg", 90, (8, 0));
    if !(24..=256).contains(&count) || !count.is_multiple_of(8) {
        let (what, value) = ("the number of registers a thread".to_owned(), count.to_string());
        r.fail(ErrorKind::OutOfRange { what, value, expected: "a multiple of 8 from 24 to 256".to_owned() });
    }
    // ptxas drops the instruction where it does not know what threads start with (its warning
    // C7508): it knows from a number of registers, or from one of blocks with one of threads.
    match (r.bounds.max_registers, &r.bounds.threads) {
        (Some(_), _) => {}
        (None, Threads::Free) => {
            let rule = "setmaxnreg means nothing without max_threads, required_block or max_registers";
            r.fail(ErrorKind::Misuse(rule.to_owned()));
        }
        (None, Threads::Max(_) | Threads::Required(_)) => {
            r.bounds.min_blocks.get_or_insert(1);
        }
    }
    let name = if direction == Direction::Give { "dec" } else { "inc" };
    let count = ptx::Operand::Immediate(ptx::Immediate::Int(count.into()));
    r.push(Opcode::Setmaxnreg, &[name, "sync", "aligned", "u32"], vec![count]);
}

/// `nanosleep`
pub(crate) fn nanosleep(r: &mut Recorder, nanoseconds: Raw) {
    let operand = r.operand(Type::U32, nanoseconds);
    r.push(Opcode::Nanosleep, &["u32"], vec![operand]);
}

/// Memory that may be loaded before a wait for the preceding launches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Constants {
    /// Nothing.
    None,
    /// Bulk copies to shared memory, of memory that none of those launches writes.
    Loaded,
}

/// Returns true if a wait for other launches after this statement would be too late: a thread may
/// have exited or accessed global memory.
fn is_late(statement: &ptx::Statement, constants: Constants) -> bool {
    // A prefetch shows nothing of what is there.
    let is_prefetch = |i: &ptx::Instruction| i.has("prefetch") || i.opcode == Opcode::Prefetch;
    let is_bulk_load = |i: &ptx::Instruction| i.has("bulk") && i.has("mbarrier::complete_tx::bytes");
    let may_stand = |i: &ptx::Instruction| constants == Constants::Loaded && is_bulk_load(i);
    let accesses = |i: &ptx::Instruction| i.has("global") && !is_prefetch(i) && !may_stand(i);
    let reaches = |i: &ptx::Instruction| matches!(i.opcode, Opcode::Exit | Opcode::Ret) || accesses(i);
    if let ptx::Statement::Scope(inner) = statement {
        return inner.iter().any(|statement| is_late(statement, constants));
    }
    matches!(statement, ptx::Statement::Instruction(i) if reaches(i))
}

/// Returns true if the target has `griddepcontrol`, so that launches can overlap.
pub(crate) fn has_dependent_launches(r: &mut Recorder) -> bool {
    let has = r.target.has(90, (7, 8));
    if has {
        r.require("griddepcontrol", 90, (7, 8));
    }
    has
}

/// `griddepcontrol.wait`, before all accesses of global memory but those of constants.
pub(crate) fn wait_for_dependencies(r: &mut Recorder, constants: Constants) {
    if r.straight_line().is_none_or(|before| before.iter().any(|statement| is_late(statement, constants))) {
        let rule = "a kernel waits for the launches before it in every thread, before it accesses global memory";
        r.fail(ErrorKind::Misuse(rule.to_owned()));
    }
    if has_dependent_launches(r) {
        r.waits_for_dependencies = true;
        r.push(Opcode::Griddepcontrol, &["wait"], vec![]);
    }
}

/// `griddepcontrol.launch_dependents`
pub(crate) fn launch_dependents(r: &mut Recorder) {
    if has_dependent_launches(r) {
        r.push(Opcode::Griddepcontrol, &["launch_dependents"], vec![]);
    }
}
