//! The virtual GPU: runs PTX text on the CPU a warp at a time, counts what hardware would do, finds
//! broken rules.
//!
//! Start with [`Program`]: it parses and decodes PTX, and launches kernels on a [`Memory`]. Inside,
//! `decode` turns the tree into compact operations, `exec` runs them, `alu`, `memory_ops`,
//! `warp_ops` and `tensor_ops` hold the operations.

#![allow(
    clippy::needless_range_loop,
    reason = "a loop over lanes indexes several rows and masks at once, in the form that vectorises"
)]

#[allow(unsafe_code, reason = "lanes of the register file")]
mod alu;
mod arch;
#[allow(unsafe_code, reason = "lanes of the register file, simulator memory")]
mod asynchronous;
mod check;
mod counters;
mod decode;
mod error;
#[allow(unsafe_code, reason = "the register file and the dispatch of decoded operations")]
mod exec;
mod launch;
mod layout;
#[allow(unsafe_code, reason = "bytes of atomic words")]
mod memory;
#[allow(unsafe_code, reason = "simulator memory")]
mod memory_ops;
pub mod occupancy;
mod program;
mod report;
#[allow(unsafe_code, reason = "simulator memory")]
mod runtime;
mod static_shared;
mod tensor_map;
#[allow(unsafe_code, reason = "lanes of the register file, and shared memory")]
mod tensor_ops;
#[allow(unsafe_code, reason = "lanes of the register file")]
mod warp_ops;

pub use arch::{Arch, UnknownArch};
pub use error::Error;
pub use launch::{Checks, Launch, Options, Stream};
pub use layout::ParamInfo;
pub use memory::Memory;
pub use program::{KernelInfo, Program};
pub use report::{Access, Counters, Finding, FindingKind, InstructionCounters, Report, Severity};
pub use tensor_map::{Fill, Interleave, L2Promotion, MapMode, MapSwizzle, TensorMap, TensorMapError, TensorType};
