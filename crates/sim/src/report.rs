//! What a run tells: counters, findings.

use std::fmt;
use std::ops::Add;

/// Totals of one launch, with the meaning that the vendor's profiler gives them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Warp instructions executed (`inst_executed`), of PTX, not of machine code.
    pub warp_instructions: u64,
    /// Active lanes summed over them (`thread_inst_executed`), predicated-off lanes included.
    pub thread_instructions: u64,
    /// Lanes whose guard held, summed (`thread_inst_executed_pred_on`).
    pub predicated_on_thread_instructions: u64,
    /// Branch instructions executed by warps.
    pub branches: u64,
    /// Those after which lanes of one warp went different ways.
    pub divergent_branches: u64,
    /// Shared loads: warp requests.
    pub shared_load_requests: u64,
    /// Shared loads: wavefronts.
    pub shared_load_wavefronts: u64,
    /// Shared loads: wavefronts beyond the ideal.
    pub shared_load_bank_conflicts: u64,
    /// Shared stores: warp requests.
    pub shared_store_requests: u64,
    /// Shared stores: wavefronts.
    pub shared_store_wavefronts: u64,
    /// Shared stores: wavefronts beyond the ideal.
    pub shared_store_bank_conflicts: u64,
    /// Global loads: warp requests.
    pub global_load_requests: u64,
    /// Global loads: 32-byte sectors.
    pub global_load_sectors: u64,
    /// Global loads: bytes asked for by all active lanes.
    pub global_load_bytes: u64,
    /// Global stores: warp requests.
    pub global_store_requests: u64,
    /// Global stores: 32-byte sectors.
    pub global_store_sectors: u64,
    /// Global stores: bytes asked for by all active lanes.
    pub global_store_bytes: u64,
    /// Local loads and stores: warp requests.
    pub local_requests: u64,
    /// Warp requests of `atom` and `red` on global memory.
    pub global_atomics: u64,
    /// Warp requests of `atom` and `red` on shared memory.
    pub shared_atomics: u64,
    /// Atomics on shared memory: turns that lanes take at a bank beyond the ideal, be it at one word or at several.
    pub shared_atomic_bank_conflicts: u64,
    /// Loads, stores and atomics in the shared memory of other blocks of the cluster: warp requests, one a block.
    pub distributed_requests: u64,
    /// Barriers of blocks and clusters (`bar`, `barrier`) executed by warps.
    pub barriers: u64,
    /// Warp-level synchronising instructions (`bar.warp.sync`, `shfl.sync`, `vote.sync`, …) executed by warps.
    pub warp_syncs: u64,
}

/// The totals of one launch and another.
impl Add for Counters {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            warp_instructions: self.warp_instructions + other.warp_instructions,
            thread_instructions: self.thread_instructions + other.thread_instructions,
            predicated_on_thread_instructions: self.predicated_on_thread_instructions
                + other.predicated_on_thread_instructions,
            branches: self.branches + other.branches,
            divergent_branches: self.divergent_branches + other.divergent_branches,
            shared_load_requests: self.shared_load_requests + other.shared_load_requests,
            shared_load_wavefronts: self.shared_load_wavefronts + other.shared_load_wavefronts,
            shared_load_bank_conflicts: self.shared_load_bank_conflicts + other.shared_load_bank_conflicts,
            shared_store_requests: self.shared_store_requests + other.shared_store_requests,
            shared_store_wavefronts: self.shared_store_wavefronts + other.shared_store_wavefronts,
            shared_store_bank_conflicts: self.shared_store_bank_conflicts + other.shared_store_bank_conflicts,
            global_load_requests: self.global_load_requests + other.global_load_requests,
            global_load_sectors: self.global_load_sectors + other.global_load_sectors,
            global_load_bytes: self.global_load_bytes + other.global_load_bytes,
            global_store_requests: self.global_store_requests + other.global_store_requests,
            global_store_sectors: self.global_store_sectors + other.global_store_sectors,
            global_store_bytes: self.global_store_bytes + other.global_store_bytes,
            local_requests: self.local_requests + other.local_requests,
            distributed_requests: self.distributed_requests + other.distributed_requests,
            global_atomics: self.global_atomics + other.global_atomics,
            shared_atomics: self.shared_atomics + other.shared_atomics,
            shared_atomic_bank_conflicts: self.shared_atomic_bank_conflicts + other.shared_atomic_bank_conflicts,
            barriers: self.barriers + other.barriers,
            warp_syncs: self.warp_syncs + other.warp_syncs,
        }
    }
}

/// Counters of one instruction, for an annotated listing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InstructionCounters {
    /// Line in the PTX text.
    pub line: u32,
    /// The instruction as text.
    pub text: String,
    /// The kernel or device function it stands in.
    pub function: String,
    /// Warp executions.
    pub executions: u64,
    /// Active lanes summed over the executions.
    pub active_lanes: u64,
    /// Branches only: executions that diverged.
    pub divergent: u64,
    /// Shared memory: wavefronts.
    pub wavefronts: u64,
    /// Shared memory: wavefronts beyond the ideal.
    pub bank_conflicts: u64,
    /// Global memory: sectors.
    pub sectors: u64,
}

/// What kind of rule was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FindingKind {
    /// Two accesses, one a write, that nothing orders.
    Race,
    /// An address outside every allocation and variable.
    OutOfBounds,
    /// A read of bytes that nothing wrote.
    Uninitialized,
    /// An address that is not a multiple of the access size.
    Misaligned,
    /// An address inside an allocation that was freed.
    UseAfterFree,
    /// An aligned barrier that part of a warp reached, or one that some threads can never reach.
    BarrierDivergence,
    /// Nothing can run any more, or everything spins.
    Deadlock,
    /// A synchronising instruction used against its rules (mask without the executing lane, bad thread count …).
    InvalidSync,
    /// Bytes that an asynchronous copy or a launch before is still writing or reading, or a copy that nothing ever waits for.
    MissingWait,
    /// Bytes that went from ordinary accesses to the asynchronous proxy without a proxy fence.
    MissingProxyFence,
}

impl FindingKind {
    /// The name used in reports: `race`, `out_of_bounds`, …
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Race => "race",
            Self::OutOfBounds => "out_of_bounds",
            Self::Uninitialized => "uninitialized",
            Self::Misaligned => "misaligned",
            Self::UseAfterFree => "use_after_free",
            Self::BarrierDivergence => "barrier_divergence",
            Self::Deadlock => "deadlock",
            Self::InvalidSync => "invalid_sync",
            Self::MissingWait => "missing_wait",
            Self::MissingProxyFence => "missing_proxy_fence",
        }
    }
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing.
    Info,
    /// Works on some hardware by luck.
    Warning,
    /// Wrong.
    Error,
}

impl Severity {
    /// `error`, `warning`, `info`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// One side of a finding: who, where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// Line in the PTX text.
    pub line: u32,
    /// The instruction as text.
    pub instruction: String,
    /// Block index.
    pub block: [u32; 3],
    /// Thread index in its block.
    pub thread: [u32; 3],
}

/// One broken rule, reported once for each pair of instructions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Which rule.
    pub kind: FindingKind,
    /// How bad.
    pub severity: Severity,
    /// The kernel that was launched.
    pub kernel: String,
    /// The access that broke the rule (the later one of a race).
    pub access: Access,
    /// The other side of a race, if it is known.
    pub other: Option<Access>,
    /// The address, where one is involved, and the variable or buffer it lies in (`tile+0x40`).
    pub address: Option<(u64, String)>,
    /// The rule, in a sentence.
    pub rule: String,
    /// How often this pair of instructions broke it.
    pub count: u64,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Access { line, instruction, block, thread } = &self.access;
        write!(
            f,
            "{}: {} in kernel {} at line {line} `{instruction}` by block {block:?} thread {thread:?}",
            self.severity.name(),
            self.kind.name(),
            self.kernel
        )?;
        if let Some((address, place)) = &self.address {
            write!(f, ", address {address:#x} ({place})")?;
        }
        if let Some(other) = &self.other {
            write!(
                f,
                "; other side: line {} `{}` by block {:?} thread {:?}",
                other.line, other.instruction, other.block, other.thread
            )?;
        }
        write!(f, ": {}", self.rule)?;
        if self.count > 1 {
            write!(f, " ({} times)", self.count)?;
        }
        Ok(())
    }
}

/// What one launch did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Totals.
    pub counters: Counters,
    /// Per instruction, in text order; empty unless asked for.
    pub instructions: Vec<InstructionCounters>,
    /// Broken rules, in a fixed order.
    pub findings: Vec<Finding>,
    /// Whether the run ended early because of a fault (what hardware calls a launch failure).
    pub aborted: bool,
}

impl Report {
    /// Whether any finding is an error.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.findings.iter().any(|f| f.severity == Severity::Error)
    }
}
