//! The report of a launch: counters and findings.
//!
//! [`Report::groups`] brings findings of one cause together, [`Place`] names elements by their
//! indices, [`demangled`] symbols by what their authors wrote, [`METRICS`] counters by what the
//! vendor's profiler calls them.

mod groups;
mod metrics;
mod names;
mod place;
mod steps;
mod timing;

use std::fmt;
use std::sync::Arc;

use warpfold_ptx::Source;

pub use crate::counters::Counters;
pub use crate::exec::l1::L1Model;
pub use groups::Group;
pub use metrics::METRICS;
pub use names::{demangled, short_name};
pub use place::Place;
pub(crate) use place::Shapes;
pub use steps::{AskedSteps, LastWriter, RecordedSteps, StepRegister, StepStore, WarpStep, WrittenRegister};
pub(crate) use timing::Residency;
pub use timing::TimingFacts;

/// Counters of one instruction, for an annotated listing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InstructionCounters {
    /// Line in the PTX text.
    pub line: u32,
    /// The instruction as text.
    pub text: String,
    /// The source line, if the PTX has one.
    pub source: Option<Arc<Source>>,
    /// The kernel or device function that contains it.
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

/// Memory of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MemorySpace {
    /// Global memory.
    Global,
    /// Shared memory of the block.
    Shared,
}

/// One access of one warp, lane by lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WarpAccess {
    /// Block index.
    pub block: [u32; 3],
    /// The warp in its block.
    pub warp: u32,
    /// The memory accessed.
    pub space: MemorySpace,
    /// Bytes that each lane accesses.
    pub bytes: u32,
    /// The lanes that access memory.
    pub mask: u32,
    /// Generic addresses by lane; meaningless for lanes that the mask leaves out. The bank of a
    /// shared word is its address over 4, modulo 32.
    pub addresses: [u64; 32],
    /// The variable or buffer at the lowest address: `tile+0x40`.
    pub place: String,
}

/// Kind of rule that was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FindingKind {
    /// Two unordered accesses, at least one of them a write.
    Race,
    /// A race between threads that lockstep alone orders: lanes of a warp without a `.sync`
    /// instruction.
    WarpSync,
    /// An address outside every allocation and variable.
    OutOfBounds,
    /// A use of uninitialised bytes.
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
    /// An access to bytes that an asynchronous copy or an earlier launch is still writing or
    /// reading, or a copy that nothing waits for.
    MissingWait,
    /// An access by the async proxy to bytes of the generic proxy without a proxy fence.
    MissingProxyFence,
    /// Memory from the device's `malloc` that was never freed.
    Leak,
    /// A copy of uninitialised bytes to the host.
    HostRead,
}

impl FindingKind {
    /// The name used in reports: `race`, `out_of_bounds`, …
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Race => "race",
            Self::WarpSync => "warp_sync",
            Self::OutOfBounds => "out_of_bounds",
            Self::Uninitialized => "uninitialized",
            Self::Misaligned => "misaligned",
            Self::UseAfterFree => "use_after_free",
            Self::BarrierDivergence => "barrier_divergence",
            Self::Deadlock => "deadlock",
            Self::InvalidSync => "invalid_sync",
            Self::MissingWait => "missing_wait",
            Self::MissingProxyFence => "missing_proxy_fence",
            Self::Leak => "leak",
            Self::HostRead => "host_read",
        }
    }
}

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// An observation.
    Info,
    /// Works by luck on some hardware.
    Warning,
    /// An error.
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

/// One side of a finding: instruction and thread. The host has no PTX line: 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// Line in the PTX text.
    pub line: u32,
    /// The instruction as text.
    pub instruction: String,
    /// The source line, if the PTX has one.
    pub source: Option<Arc<Source>>,
    /// Block index.
    pub block: [u32; 3],
    /// Thread index in its block.
    pub thread: [u32; 3],
}

impl Access {
    /// The host's side, which has no instruction.
    pub(crate) fn host() -> Self {
        let instruction = "a copy to the host".to_owned();
        Self { line: 0, instruction, source: None, block: [0; 3], thread: [0; 3] }
    }

    /// The shortest form of its line: `k.cu:11`, or `line 40` of the PTX text without source lines.
    #[must_use]
    pub fn at(&self) -> String {
        match &self.source {
            Some(source) => source.author().to_string(),
            None if self.line == 0 => self.instruction.clone(),
            None => format!("line {}", self.line),
        }
    }
}

/// One broken rule, reported once for each pair of instructions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The rule that was broken.
    pub kind: FindingKind,
    /// Severity of the finding.
    pub severity: Severity,
    /// The kernel that was launched.
    pub kernel: String,
    /// The access that broke the rule (the later one of a race).
    pub access: Access,
    /// The other side of a race, if it is known; the load of an uninitialised value.
    pub other: Option<Access>,
    /// The address, if one is involved, and the variable or buffer there (`tile+0x40`).
    pub address: Option<(u64, String)>,
    /// The element at the address, if it is in a variable or a buffer.
    pub place: Option<Place>,
    /// The rule, in a sentence.
    pub rule: String,
    /// Number of times that this pair of instructions broke it.
    pub count: u64,
}

impl Finding {
    /// Returns true if the finding fails a test: an error, or a warning of something that works
    /// only if hardware happens to run the lanes of a warp in lockstep or to ignore threads that a
    /// barrier or an exchange waits for, unless its kind is among those allowed.
    #[must_use]
    pub fn is_failure(&self, allowed: &[FindingKind]) -> bool {
        let relies_on_luck =
            matches!(self.kind, FindingKind::WarpSync | FindingKind::InvalidSync | FindingKind::BarrierDivergence);
        match self.severity {
            Severity::Error => true,
            Severity::Warning => relies_on_luck && !allowed.contains(&self.kind),
            Severity::Info => false,
        }
    }
}

/// Prints one line. A known source line comes first and the PTX last.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Access { line, instruction, source, block, thread } = &self.access;
        let (severity, kind, kernel) = (self.severity.name(), self.kind.name(), short_name(&self.kernel));
        if *line == 0 {
            let place = self.place.as_ref().map(|place| format!(" of {place}")).unwrap_or_default();
            return write!(f, "{severity}: {kind}{place}: {}", self.rule);
        }
        match source {
            Some(source) => write!(f, "{source}: {severity}: {kind} in kernel {kernel}")?,
            None => write!(f, "{severity}: {kind} in kernel {kernel} at line {line} `{instruction}`")?,
        }
        write!(f, " by block {block:?} thread {thread:?}")?;
        match (&self.place, &self.address) {
            (Some(place), _) => write!(f, ", {place}")?,
            (None, Some((address, described))) => write!(f, ", address {address:#x} ({described})")?,
            (None, None) => {}
        }
        if let Some(other) = &self.other {
            match &other.source {
                Some(source) => write!(f, "; other side: {source}")?,
                None => write!(f, "; other side: line {} `{}`", other.line, other.instruction)?,
            }
            write!(f, " by block {:?} thread {:?}", other.block, other.thread)?;
        }
        write!(f, ": {}", self.rule)?;
        if self.count > 1 {
            write!(f, " ({} times)", self.count)?;
        }
        if source.is_some() {
            write!(f, "; PTX line {line} `{instruction}`")?;
            if let Some(other) = self.other.as_ref().filter(|other| other.source.is_some()) {
                write!(f, ", line {} `{}`", other.line, other.instruction)?;
            }
        }
        Ok(())
    }
}

/// Report of one launch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Blocks in x, y, z.
    pub grid: [u32; 3],
    /// Threads a block in x, y, z.
    pub block: [u32; 3],
    /// Totals.
    pub counters: Counters,
    /// Per instruction, in text order; empty unless asked for.
    pub instructions: Vec<InstructionCounters>,
    /// Broken rules, in a fixed order.
    pub findings: Vec<Finding>,
    /// True if the run ended early because of a fault (a launch failure on hardware).
    pub aborted: bool,
    /// The model of the L1 that hits were counted in, if the launch asked for them.
    pub l1: Option<L1Model>,
    /// What a prediction of time needs beyond the counters, if the launch asked for it.
    pub timing: Option<TimingFacts>,
    /// The steps of a warp, if the launch asked for them.
    pub steps: Option<RecordedSteps>,
}

impl Report {
    /// Returns true if any finding is an error.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.findings.iter().any(|f| f.severity == Severity::Error)
    }
}
