//! Errors in loading a program or starting a launch. Faults of the simulated program are findings,
//! not errors.

use std::sync::Arc;

use warpfold_ptx::Source;

use crate::report::short_name;

/// An error of the host, or PTX that the simulator does not support.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A syntax error in the PTX text.
    #[error("PTX syntax error at {0}")]
    Syntax(#[from] warpfold_ptx::ParseError),
    /// A PTX instruction or directive that is not supported.
    #[error("line {line}: not supported by the virtual GPU: `{text}`: {reason}")]
    Unsupported {
        /// Line in the text.
        line: u32,
        /// The instruction or directive.
        text: String,
        /// Reason of the error.
        reason: String,
    },
    /// Invalid PTX (unknown name, wrong operand …).
    #[error("line {line}: invalid PTX: `{text}`: {reason}")]
    Invalid {
        /// Line in the text.
        line: u32,
        /// The instruction or directive.
        text: String,
        /// Reason of the error.
        reason: String,
    },
    /// No such kernel in the module.
    #[error("no kernel named '{name}'; the module has: {known}")]
    UnknownKernel {
        /// The name that was requested.
        name: String,
        /// The kernels of the module.
        known: String,
    },
    /// A launch that exceeds a limit.
    #[error("cannot launch {}: {reason}", short_name(kernel))]
    InvalidLaunch {
        /// The kernel.
        kernel: String,
        /// The limit that was exceeded, with its value.
        reason: String,
    },
    /// Device memory is exhausted.
    #[error("out of device memory: {requested} bytes asked for, {free} free of {capacity}")]
    OutOfMemory {
        /// Bytes asked for.
        requested: u64,
        /// Bytes free.
        free: u64,
        /// Total bytes.
        capacity: u64,
    },
    /// The host has no memory for the simulated allocation.
    #[error("the host has no memory for {requested} bytes of device memory")]
    OutOfHostMemory {
        /// Bytes requested.
        requested: u64,
    },
    /// A host copy outside an allocation.
    #[error("host access to {bytes} bytes at {address:#x} is outside every live allocation")]
    BadHostAccess {
        /// Start.
        address: u64,
        /// Length.
        bytes: u64,
    },
    /// The checks found errors under [`Checks::Deny`](crate::Checks::Deny).
    #[error("kernel {} broke rules:{}", short_name(kernel), listed(report))]
    Findings {
        /// The kernel.
        kernel: String,
        /// All findings, and the counters.
        report: Box<crate::Report>,
    },
    /// The host has read uninitialised bytes under [`Checks::Deny`](crate::Checks::Deny).
    #[error("{0}")]
    HostRead(Box<crate::Finding>),
    /// The kernel executed `trap`.
    #[error(
        "{}kernel {} trapped at {}line {line} (block {block:?}, thread {thread:?})",
        first(at),
        short_name(kernel),
        of_ptx(at)
    )]
    Trap {
        /// The kernel.
        kernel: String,
        /// Line of the `trap`.
        line: u32,
        /// The source line, if the PTX has one.
        at: Option<Arc<Source>>,
        /// Block index.
        block: [u32; 3],
        /// Thread index.
        thread: [u32; 3],
    },
}

/// `k.cu:11: `
fn first(source: &Option<Arc<Source>>) -> String {
    source.as_ref().map(|source| format!("{source}: ")).unwrap_or_default()
}

fn of_ptx(source: &Option<Arc<Source>>) -> &'static str {
    if source.is_some() { "PTX " } else { "" }
}

/// Lists findings, one per line.
fn listed(report: &crate::Report) -> String {
    report.findings.iter().map(|finding| format!("\n{finding}")).collect()
}
