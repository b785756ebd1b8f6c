//! Machine state for handlers: the current frame, the memories, the counters.

use std::sync::Arc;

use super::checking::Checking;
use super::cluster::Cluster;
use super::code::Placed;
use super::op::Op;
use super::recording::Recording;
use super::row::Row;
use crate::asynchronous::Asynchronous;
use crate::asynchronous::reduce::Reduction;
use crate::counters::AccessCounters;
use crate::heap::Heap;
use crate::limited::Limited;
use crate::memory::{Allocation, Freed};
use crate::report::{FindingKind, Severity};
use crate::tensor_ops::Tables;
use crate::tensor_ops::product::Scratch;
use crate::tensor_ops::queue::Queue;
use crate::tensor_ops::rules::Warpgroups;
use crate::undefined::Undefined;

/// A broken rule, before it becomes a finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The rule that was broken.
    pub kind: FindingKind,
    /// Severity of the fault.
    pub severity: Severity,
    /// The instruction.
    pub instruction: u32,
    /// Linear block index.
    pub block: u64,
    /// Linear thread index in the block.
    pub thread: u32,
    /// Generic address, if one is involved, and a description of the object there.
    pub address: Option<(u64, String)>,
    /// The other side: instruction, block, thread.
    pub other: Option<(u32, u64, u32)>,
    /// The rule.
    pub rule: String,
}

/// The rule of a value that a shuffle takes from a lane that gives none (PTX ISA, "shfl.sync").
pub(crate) const UNDEFINED_VALUE: &str =
    "reads the value of a lane that has ended, or that the member mask does not name: it is undefined";

impl Fault {
    /// Returns true if both are about the same rule and the same instructions.
    pub(crate) fn same_pair(&self, other: &Self) -> bool {
        let pair = |f: &Self| (f.kind, f.instruction, f.other.map(|o| o.0));
        let is_note = |f: &Self| f.severity == Severity::Info;
        pair(self) == pair(other) && is_note(self) == is_note(other) && (!is_note(self) || self.rule == other.rule)
    }

    /// Returns true if of two faults of the same instructions this one is the example: that a value
    /// is undefined says more than that a mask names lanes that have ended.
    pub(crate) fn is_told_before(&self, other: &Self) -> bool {
        self.rule == UNDEFINED_VALUE && other.rule != UNDEFINED_VALUE
    }
}

/// The machine that runs handlers: one for each host thread.
pub(crate) struct Machine {
    /// First row of the current frame.
    pub frame: *mut Row,
    /// Index of that row in the warp's rows.
    pub frame_base: u32,
    /// First predicate of the current frame.
    pub predicates: *mut u32,
    /// Local memory of the current warp, one row for each 4 bytes.
    pub local: *mut Vec<Row>,
    /// Tensor-core products that the current warp has in flight.
    pub in_flight: *mut Queue,
    /// Values of the current warp from bytes that nothing has written, in checked runs.
    pub undefined: *mut Option<Box<Undefined>>,
    /// True if there are such values: then every instruction of the warp is followed.
    pub is_followed: bool,
    /// Start of the current frame's local memory.
    pub local_base: u32,
    /// End of the current frame's local memory.
    pub local_end: u32,
    /// Shared memory of the current block.
    pub shared: *mut u8,
    /// Size of shared memory.
    pub shared_bytes: u32,
    /// The cluster of the current block.
    pub cluster: Cluster,
    /// Kernel parameters.
    pub params: Arc<[u8]>,
    /// Global memory.
    pub global: GlobalView,
    /// Heap of `malloc`, if the program uses it.
    pub heap: Option<Arc<Heap>>,
    /// Limits on the launch's memory accesses.
    pub limited: Option<Arc<Limited>>,
    /// Number of the launch.
    pub launch: u64,
    /// The current warp of the block.
    pub warp: u32,
    /// Linear index of the current block.
    pub block: u64,
    /// Counters, by instruction.
    pub counters: Vec<AccessCounters>,
    /// Recorded accesses by instruction, if recording is enabled.
    pub recording: Option<Box<Recording>>,
    /// True if something changed that others may wait for.
    pub progress: bool,
    /// True if the current part may be waiting for others (it read volatile or atomic state, or
    /// slept).
    pub waiting: bool,
    /// True if a fault ended the run.
    pub stop: bool,
    /// Broken rules so far, each with its count.
    pub faults: Vec<(Fault, u64)>,
    /// A deterministic clock: warp instructions executed by this worker.
    pub clock: u64,
    /// True if the checks are on.
    pub checked: bool,
    /// The checker, if the checks are on.
    pub checking: Option<Box<Checking>>,
    /// Variables in shared memory and their places.
    pub shared_map: Arc<[Placed]>,
    /// Operands of tensor-core instructions.
    pub tensor: Arc<Tables>,
    /// Operands of tensor-core instructions as numbers.
    pub scratch: Box<Scratch>,
    /// The function of the current frame.
    pub function: u32,
    /// Local variables by function.
    pub locals: Vec<Vec<Placed>>,
    /// Reductions that bulk copies name.
    pub reductions: Arc<[Reduction]>,
    /// Asynchronous operations of the current block that have not completed.
    pub asynchronous: Asynchronous,
    /// Instructions that the warpgroups of the current block have executed, for the checks.
    pub warpgroups: Warpgroups,
}

/// Global memory for one worker.
#[derive(Debug)]
pub(crate) struct GlobalView {
    /// Live allocations, sorted.
    live: Vec<Arc<Allocation>>,
    /// Freed ranges.
    freed: Freed,
    /// First address of the allocation used last.
    base: u64,
    /// Size of that allocation.
    bytes: u64,
    /// Contents of that allocation.
    data: *mut u8,
}

impl GlobalView {
    /// A view of a snapshot.
    pub(crate) fn new(live: Vec<Arc<Allocation>>, freed: Freed) -> Self {
        Self { live, freed, base: 0, bytes: 0, data: std::ptr::null_mut() }
    }

    /// Host address of `bytes` bytes at a device address, if they are in one allocation.
    #[inline(always)]
    pub(crate) fn locate(&mut self, address: u64, bytes: u64) -> Option<*mut u8> {
        let offset = address.wrapping_sub(self.base);
        if offset < self.bytes && bytes <= self.bytes - offset {
            return Some(self.data.wrapping_add(offset as usize));
        }
        self.search(address, bytes)
    }

    #[cold]
    #[inline(never)]
    fn search(&mut self, address: u64, bytes: u64) -> Option<*mut u8> {
        let at = self.live.partition_point(|a| a.base <= address).checked_sub(1)?;
        let a = &self.live[at];
        let offset = address - a.base;
        if offset >= a.bytes || bytes > a.bytes - offset {
            return None;
        }
        (self.base, self.bytes) = (a.base, a.bytes);
        self.data = a.data().cast_mut().cast();
        Some(self.data.wrapping_add(usize::try_from(offset).ok()?))
    }

    /// The live allocation that contains an address.
    pub(crate) fn allocation(&self, address: u64) -> Option<&Allocation> {
        let at = self.live.partition_point(|a| a.base <= address).checked_sub(1)?;
        let a = &self.live[at];
        (address - a.base < a.bytes).then_some(a)
    }

    /// Describes an address by the allocation in or after which it is, with the offset.
    pub(crate) fn describe(&self, address: u64) -> String {
        if let Some((range, name)) = self.freed.iter().find(|(r, _)| r.contains(&address)) {
            return format!("{name}+{:#x}, freed", address - range.start);
        }
        let at = self.live.partition_point(|a| a.base <= address);
        if let Some(next) = self.live.get(at).filter(|next| next.base - address <= 256) {
            return format!("{} bytes before the start of {}", next.base - address, next.name);
        }
        match at.checked_sub(1).map(|i| &self.live[i]) {
            Some(a) if address - a.base < a.bytes => format!("{}+{:#x}", a.name, address - a.base),
            Some(a) => {
                let beyond = address - a.base - a.bytes;
                format!("{beyond} bytes past the end of {} ({} bytes)", a.name, a.bytes)
            }
            None => "no allocation".to_owned(),
        }
    }

    /// Returns true if an address is in a freed allocation.
    pub(crate) fn is_freed(&self, address: u64) -> bool {
        self.freed.iter().any(|(r, _)| r.contains(&address))
    }
}

impl Machine {
    /// Records a broken rule; without checks the first one ends the run, as on hardware.
    #[cold]
    #[inline(never)]
    pub(crate) fn fault(&mut self, fault: Fault, stop: bool) {
        self.stop |= stop;
        match self.faults.iter_mut().find(|(f, _)| f.same_pair(&fault)) {
            Some((old, count)) => {
                *count += 1;
                if fault.is_told_before(old) {
                    *old = fault;
                }
            }
            None => self.faults.push((fault, 1)),
        }
    }

    /// Records a rule that a lane of an instruction breaks; without checks that ends the run.
    #[cold]
    #[inline(never)]
    pub(crate) fn fault_at(&mut self, op: &Op, kind: FindingKind, lane: u32, rule: String) {
        let (block, thread, instruction) = (self.block, self.thread(lane), op.instruction);
        let severity = Severity::Error;
        let fault = Fault { kind, severity, instruction, block, thread, address: None, other: None, rule };
        let stop = !self.checked;
        self.fault(fault, stop);
    }

    /// Records a rule that a lane of an instruction breaks, possibly without harm.
    #[cold]
    #[inline(never)]
    pub(crate) fn warn_at(&mut self, op: &Op, kind: FindingKind, lane: u32, rule: String) {
        let (block, thread, instruction) = (self.block, self.thread(lane), op.instruction);
        let severity = Severity::Warning;
        self.fault(Fault { kind, severity, instruction, block, thread, address: None, other: None, rule }, false);
    }

    /// The linear thread index of a lane of the current warp.
    pub(crate) fn thread(&self, lane: u32) -> u32 {
        self.warp * 32 + lane
    }
}
