//! The virtual GPU: runs PTX text on the CPU a warp at a time, counts what hardware would do, finds broken rules.

mod arch;
#[allow(dead_code, unused_imports, reason = "the interpreter calls it once checked runs are in")]
mod check;
mod error;
mod launch;
mod report;

pub use arch::{Arch, UnknownArch};
pub use error::Error;
pub use launch::{Checks, Launch, Options};
pub use report::{Access, Counters, Finding, FindingKind, InstructionCounters, Report, Severity};
