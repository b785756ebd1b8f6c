//! Options that filter findings and set the exit code, as other checkers have them.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use warpfold_sim::FindingKind;

/// Options that select the findings shown and how they affect the exit code.
#[derive(Debug, Args)]
pub(super) struct Shown {
    /// Look for one class of findings, as compute-sanitizer's tools do; instead of --check.
    #[arg(long, conflicts_with = "check")]
    pub(super) tool: Option<Tool>,
    /// The exit code when there are findings of severity error.
    #[arg(long, value_name = "CODE", default_value_t = 1)]
    pub(super) error_exitcode: u8,
    /// Show this many findings at most; the last line counts them all.
    #[arg(long, value_name = "COUNT")]
    pub(super) max_findings: Option<usize>,
    /// Leave out findings of a kind, such as warp_sync; any number of times.
    #[arg(long, value_name = "KIND", value_parser = super::suppress::kind)]
    pub(super) allow: Vec<FindingKind>,
    /// Leave out findings that a file names: a rule a line, `KIND [variable=NAME] [at=FILE:LINE]
    /// [kernel=NAME]`, KIND being `*` for all, after `#` comments.
    ///
    /// The JSON report has the rule of each finding as `suppression`. A rule that fits nothing is
    /// named, so that a file does not grow old.
    #[arg(long, value_name = "FILE")]
    pub(super) suppressions: Option<PathBuf>,
}

/// A class of findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Tool {
    /// Accesses outside of memory: out of bounds, misaligned, after free; leaks.
    Memcheck,
    /// Races, and waits and proxy fences that asynchronous copies lack.
    Racecheck,
    /// Uses of bytes that nothing wrote, and outputs of them.
    Initcheck,
    /// Barriers and other synchronisation used against their rules, deadlocks.
    Synccheck,
}

impl Tool {
    /// Returns the tool that reports a kind of finding.
    pub(super) fn of(kind: FindingKind) -> Self {
        use FindingKind as K;
        match kind {
            K::Race | K::WarpSync | K::MissingWait | K::MissingProxyFence => Self::Racecheck,
            K::Uninitialized | K::HostRead => Self::Initcheck,
            K::BarrierDivergence | K::Deadlock | K::InvalidSync => Self::Synccheck,
            K::OutOfBounds | K::Misaligned | K::UseAfterFree | K::Leak => Self::Memcheck,
        }
    }

    /// Describes the findings of the tool.
    pub(super) const fn looks_for(self) -> &'static str {
        match self {
            Self::Memcheck => "accesses out of bounds, misaligned and after free, leaks",
            Self::Racecheck => "races, missing waits and proxy fences",
            Self::Initcheck => "uses and outputs of bytes that nothing has written",
            Self::Synccheck => "divergent barriers, deadlocks and misused synchronisation",
        }
    }
}
