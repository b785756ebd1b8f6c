//! The report of a launch: counters and findings.

use std::fmt;

pub use crate::counters::Counters;

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
    /// The first accesses of one warp; empty unless [`Options::record`](crate::Options::record)
    /// asks for them.
    pub accesses: Vec<WarpAccess>,
}

/// Which memory an access is to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MemorySpace {
    /// That of the device.
    Global,
    /// That of the block.
    Shared,
}

/// One access of one warp, lane by lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WarpAccess {
    /// Block index.
    pub block: [u32; 3],
    /// The warp in its block.
    pub warp: u32,
    /// Which memory.
    pub space: MemorySpace,
    /// Bytes that each lane accesses.
    pub bytes: u32,
    /// The lanes that access memory.
    pub mask: u32,
    /// Generic addresses by lane; meaningless for lanes that the mask leaves out. The bank of a
    /// shared word is its address over 4, modulo 32.
    pub addresses: [u64; 32],
    /// The variable or buffer that the lowest address lies in: `tile+0x40`.
    pub place: String,
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
    /// A synchronising instruction used against its rules (mask without the executing lane, bad
    /// thread count …).
    InvalidSync,
    /// Bytes that an asynchronous copy or a launch before is still writing or reading, or a copy
    /// that nothing ever waits for.
    MissingWait,
    /// Bytes that went from the generic proxy to the async proxy without a proxy fence.
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
