//! The virtual GPU: runs PTX text on the CPU one warp at a time, counts what hardware would do, and
//! finds broken rules.
//!
//! Start with [`Program`]: it parses and decodes PTX, and launches kernels on a [`Memory`]. Inside,
//! `decode` turns the tree into compact operations, `exec` runs them, `alu`, `memory_ops`,
//! `warp_ops` and `tensor_ops` hold the operations.
//!
//! # Decisions, and why
//!
//! The aim is a machine that runs any PTX exactly, counts as a profiler would, and is still fast
//! enough for problems of full size (BENCHMARKS.md has the figures). It interprets: there is no
//! code generator, so nothing to trust or to port but Rust.
//!
//! **Decode once, to `Op { run, rows … }`.** Text is parsed and decoded when a program is loaded.
//! An operation is a pointer to its handler, the rows that it reads and writes, and one number
//! whose meaning is the handler's. Dispatch is one indirect call for 32 lanes (`exec/op.rs`).
//!
//! **Every operand is a row.** A warp's register file is an array of rows; a row holds 32 bits of
//! all 32 lanes, and wider registers take two or four rows in a line. Immediates, addresses of
//! variables and special registers have rows of their own, filled when a frame starts
//! (`exec/special.rs`). So a handler never asks what an operand is, and its loop is straight-line
//! code over arrays, which the compiler vectorises. The price is a few more rows; there is no
//! register allocation, and `decode/liveness.rs` only estimates what ptxas would need and finds
//! what is read before it is written (that reads as zero, so that runs repeat).
//!
//! **A handler is a generic `LaneOp`, compiled twice.** `Level::handler` instantiates it for the
//! base target and, in a function with `#[target_feature]`, for AVX2; because `LaneOp::run` is
//! `#[inline(always)]`, its loop takes on the features. (design.md asks for AVX-512, too; it was
//! measured slower, see `Level`.) Which one runs is chosen when a program is decoded, once.
//! Operations are written as formulas on one lane (`alu/define.rs`); results are the same bits on
//! every level.
//!
//! **Basic blocks with terminators.** Whatever may wait, diverge or leave (`bra`, `call`, `bar`,
//! `shfl`, `vote`, …) ends a block, and its guard becomes a branch around it, so that straight-line
//! operations cannot stop in the middle. Instruction counts are then kept per block (executions and
//! lanes) and multiplied out at the end; only memory operations and guards count one by one.
//!
//! **Divergence: parts and joins** (`exec/warp.rs`). A warp is a set of parts, each a lane mask at
//! one place. A divergent branch makes two parts of one and a join at the branch's immediate
//! post-dominator (`decode/cfg.rs`), where they wait for each other. That is the classic SIMT
//! stack, as a tree: on a stack only the top can run, and a lane that spins on what its neighbour
//! has yet to store hangs for ever, which hardware since Volta does not. Here every part gets
//! slices, and when all that still run only spin, a part that waits at a join is let go without
//! them. `.sync` instructions wait for the lanes that they name, wherever those are.
//!
//! **Blocks on host threads, in increasing order** (`exec/grid.rs`), unless a seed shuffles them. A
//! worker runs one block at a time, all its warps in turn. A block that only waits (it spins on
//! strong accesses, or sleeps) gives way, and the next one becomes resident beside it, so that a
//! block may wait for earlier ones (decoupled look-back) even on one worker. Blocks of a
//! cooperative launch are resident from the start. A run in which nothing moves for
//! `Options::patience` instructions is a deadlock, and a finding.
//!
//! **Clusters** (`exec/cluster.rs`). The blocks of a cluster become resident together and stay on
//! one worker, which gives them turns, so distributed shared memory is plain memory, too. An
//! address in `.shared::cluster` is an offset with the rank of its block in front; `Machine::place`
//! tells whose memory that is. The checker judges shared memory between blocks of a cluster as it
//! judges global memory, under addresses that no allocation has (`check/global/cluster.rs`).
//!
//! **Tensor cores.** One routine multiplies eight rows by eight columns on accumulators as they lie
//! in registers (`tensor_ops/product.rs`). A `wgmma` waits in its warp's queue and takes effect at
//! the `wait_group` that covers it, so that a missing wait gives a wrong value, too.
//!
//! **Memory.** Global memory is accessed with relaxed host atomics only, as blocks on other threads
//! may race on it: the races of a simulated program must not be data races of ours. Shared and
//! local memory belong to one host thread and are plain. Addresses are never reused and allocations
//! lie apart, so a use after free or a small overrun is always seen. Spaces are windows of the
//! generic address space (`exec/memory_map.rs`).
//!
//! **Checked runs are a second program.** With checks on, the module is decoded again with handlers
//! that call the checker; the unchecked ones hold no test for it. In that layout red zones lie
//! between shared variables, so that an overrun falls into a gap; they are multiples of 128 bytes,
//! all 32 banks once, so bank conflicts count the same in both.
//!
//! **The checker** (`check/`) follows FastTrack: a location remembers its last write and its
//! readers, clocks say what an access knows of. It is told of whole warps' accesses and of all that
//! synchronises, and applies the PTX memory model, not the schedule that happened to run: a missing
//! barrier is found in a run that came out right. Launches run in turn, but the shadow still knows
//! those that one may overlap: what it does to their bytes without a `griddepcontrol.wait` is found
//! (`check/global/dependence.rs`). Each file opens with what it deviates in and what it can miss.
//!
//! **Counters** (`memory_ops/pattern.rs`) have the vendor profiler's meaning: wavefronts and
//! conflicts of shared accesses, sectors of global ones, per instruction. There is no clock;
//! [`predict`] makes a range of time of the counters and a table of a GPU.
//!
//! **The feature `machine`** has all of it. Without it the crate is what drivers of real GPUs need,
//! too: names of architectures, and tensor maps with their rules.

#![allow(
    clippy::needless_range_loop,
    reason = "a loop over lanes indexes several rows and masks at once, in the form that vectorises"
)]

#[cfg(feature = "machine")]
#[allow(unsafe_code, reason = "lanes of the register file")]
mod alu;
#[cfg(feature = "machine")]
#[allow(unsafe_code, reason = "lanes of the register file, simulator memory")]
mod asynchronous;
#[cfg(feature = "machine")]
mod check;
#[cfg(feature = "machine")]
mod counters;
#[cfg(feature = "machine")]
mod decode;
#[cfg(feature = "machine")]
mod display;
#[cfg(feature = "machine")]
mod error;
#[cfg(feature = "machine")]
#[allow(unsafe_code, reason = "the register file and the dispatch of decoded operations")]
mod exec;
mod granted;
#[cfg(feature = "machine")]
mod heap;
#[cfg(feature = "machine")]
mod launch;
#[cfg(feature = "machine")]
mod layout;
#[cfg(feature = "machine")]
mod limited;
#[cfg(feature = "machine")]
#[allow(unsafe_code, reason = "bytes of atomic words")]
mod memory;
#[cfg(feature = "machine")]
#[allow(unsafe_code, reason = "simulator memory")]
mod memory_ops;
#[cfg(feature = "machine")]
pub mod occupancy;
#[cfg(feature = "machine")]
pub mod predict;
#[cfg(feature = "machine")]
mod program;
#[cfg(feature = "machine")]
mod report;
#[cfg(feature = "machine")]
#[allow(unsafe_code, reason = "simulator memory")]
mod runtime;
#[cfg(feature = "machine")]
mod static_shared;
mod tensor_map;
#[cfg(feature = "machine")]
#[allow(unsafe_code, reason = "lanes of the register file, and shared memory")]
mod tensor_ops;
#[cfg(feature = "machine")]
#[allow(unsafe_code, reason = "lanes of the register file")]
mod undefined;
#[cfg(feature = "machine")]
#[allow(unsafe_code, reason = "lanes of the register file")]
mod warp_ops;

#[cfg(feature = "machine")]
pub use display::grouped;
#[cfg(feature = "machine")]
pub use error::Error;
pub use granted::Granted;
#[cfg(feature = "machine")]
pub use launch::{Checks, Launch, Options, Stream};
#[cfg(feature = "machine")]
pub use layout::ParamInfo;
#[cfg(feature = "machine")]
pub use memory::Memory;
#[cfg(feature = "machine")]
pub use program::{KernelInfo, Program};
#[cfg(feature = "machine")]
pub use report::{
    Access, AskedSteps, Counters, Finding, FindingKind, Group, InstructionCounters, L1Model, LastWriter, METRICS,
    MemorySpace, Place, RecordedSteps, Report, Severity, StepRegister, StepStore, TimingFacts, WarpAccess, WarpStep,
    WrittenRegister, demangled, short_name,
};
pub use tensor_map::{Fill, Interleave, L2Promotion, MapMode, MapSwizzle, TensorMap, TensorMapError, TensorType};
pub use warpfold_ptx::{Arch, UnknownArch};
pub use warpfold_ptx::{Source, SourceLine};
