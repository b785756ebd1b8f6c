//! Errors: why a program cannot be loaded or a launch cannot start. Faults of the simulated program
//! are findings, not errors.

use std::sync::Arc;

use warpfold_ptx::Source;

use crate::report::short_name;

/// An error of the host's making, or PTX that this machine does not run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text is not PTX.
    #[error("PTX syntax error at {0}")]
    Syntax(#[from] warpfold_ptx::ParseError),
    /// The text is PTX, but an instruction or directive in it is not executed here.
    #[error("line {line}: not supported by the virtual GPU: `{text}`: {reason}")]
    Unsupported {
        /// Line in the text.
        line: u32,
        /// The instruction or directive.
        text: String,
        /// Reason of the error.
        reason: String,
    },
    /// The text is PTX, but means nothing (unknown name, wrong operand …).
    #[error("line {line}: invalid PTX: `{text}`: {reason}")]
    Invalid {
        /// Line in the text.
        line: u32,
        /// The instruction or directive.
        text: String,
        /// Reason of the error.
        reason: String,
    },
    /// No such entry in the module.
    #[error("no kernel named '{name}'; the module has: {known}")]
    UnknownKernel {
        /// The name that was requested.
        name: String,
        /// The kernels of the module.
        known: String,
    },
    /// The launch breaks a limit.
    #[error("cannot launch {}: {reason}", short_name(kernel))]
    InvalidLaunch {
        /// The kernel.
        kernel: String,
        /// The limit that was exceeded, with its value.
        reason: String,
    },
    /// The device's memory is used up.
    #[error("out of device memory: {requested} bytes asked for, {free} free of {capacity}")]
    OutOfMemory {
        /// Bytes asked for.
        requested: u64,
        /// Bytes free.
        free: u64,
        /// Bytes in all.
        capacity: u64,
    },
    /// The host has no memory to stand in for the device's.
    #[error("the host has no memory for {requested} bytes of device memory")]
    OutOfHostMemory {
        /// Bytes asked for.
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
    /// The checks found errors, and [`Checks::Deny`](crate::Checks::Deny) was asked for.
    #[error("kernel {} broke rules:{}", short_name(kernel), listed(report))]
    Findings {
        /// The kernel.
        kernel: String,
        /// All findings, and the counters.
        report: Box<crate::Report>,
    },
    /// The host has read bytes that nothing has written, and
    /// [`Checks::Deny`](crate::Checks::Deny) was asked for.
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
        /// The line of source that it comes from, where the PTX says so.
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

/// Findings, a line each.
fn listed(report: &crate::Report) -> String {
    report.findings.iter().map(|finding| format!("\n{finding}")).collect()
}
