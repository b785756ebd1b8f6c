//! The steps of one warp through a kernel: what it executed, wrote and accessed, one by one.

use std::ops::Range;
use std::sync::Arc;

use warpfold_ptx::Source;

use super::WarpAccess;

/// The warp whose steps are recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedSteps {
    /// Linear index of its block in the grid.
    pub block: u64,
    /// The warp in its block.
    pub warp: u32,
    /// RecordedSteps that are kept at most.
    pub most: usize,
    /// Ranges of global memory for whose bytes the last store is kept, of whatever block.
    pub watched: Vec<Range<u64>>,
}

/// The steps of a warp.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedSteps {
    /// Block index.
    pub block: [u32; 3],
    /// The warp in its block.
    pub warp: u32,
    /// Registers that steps write.
    pub registers: Vec<StepRegister>,
    /// The first steps, in the order of execution.
    pub list: Vec<WarpStep>,
    /// Number of all steps of the warp.
    pub num_steps: u64,
    /// Stores of the block's other warps to shared memory, and bulk copies into it, in order.
    pub stores: Vec<StepStore>,
    /// Last stores to the watched bytes, by address.
    pub writers: Vec<LastWriter>,
}

/// A register of the kernel or of a device function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepRegister {
    /// Its name: `%r1`.
    pub name: String,
    /// Its declared type: `.b32`.
    pub ty: String,
}

/// One instruction, executed by a warp or by a part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WarpStep {
    /// Line in the PTX text.
    pub line: u32,
    /// The instruction as text.
    pub text: String,
    /// The source line, if the PTX has one.
    pub source: Option<Arc<Source>>,
    /// Lanes that are at the instruction.
    pub mask: u32,
    /// Lanes whose guard lets them execute it; of a branch, those that take it.
    pub active: u32,
    /// True if it did not complete at once: it waits for other lanes or warps, or lanes went
    /// different ways.
    pub is_open: bool,
    /// Registers that changed.
    pub written: Vec<WrittenRegister>,
    /// Accesses to memory.
    pub accesses: Vec<WarpAccess>,
    /// Words of shared memory that changed since the step before, by a store of any warp: index and
    /// value.
    pub shared: Vec<(u32, u32)>,
}

/// A register that changed in some lanes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenRegister {
    /// Index into [`RecordedSteps::registers`].
    pub register: u32,
    /// Its values in all lanes, as bits; a predicate is 0 or 1.
    pub values: [u128; 32],
}

/// A store to shared memory that no step of the watched warp made at once: by another warp of the
/// block, or by a bulk copy when it lands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepStore {
    /// Number of steps of the watched warp before it.
    pub before: u32,
    /// Line in the PTX text.
    pub line: u32,
    /// The access, by the warp that stores or has issued the copy.
    pub access: WarpAccess,
    /// The step that issued the copy, if it is one of the watched warp.
    pub step: Option<u32>,
}

/// The last store to a byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastWriter {
    /// The byte's address.
    pub address: u64,
    /// Linear index of the block.
    pub block: u64,
    /// The warp in its block.
    pub warp: u32,
    /// The lane.
    pub lane: u32,
    /// Line in the PTX text.
    pub line: u32,
    /// The step, if it is one of the watched warp.
    pub step: Option<u32>,
    /// Offset in shared memory of the byte, if a bulk copy brought it from there.
    pub from: Option<u32>,
}
