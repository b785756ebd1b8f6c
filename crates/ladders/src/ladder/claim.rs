//! Claims of rungs: statements about counters that a test can check against a run.

use std::fmt;

use warpfold_device::Counters;

use super::Memory;

/// Measurements of one run of a rung.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measured {
    /// Totals of its launches.
    pub counters: Counters,
    /// Blocks of its launches.
    pub blocks: u64,
    /// Operations from input to result.
    pub steps: u64,
    /// Memory beside inputs and result.
    pub memory: Memory,
}

/// A number that a run has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Metric {
    /// Lanes at work in an instruction, out of 32.
    WarpEfficiency,
    /// Branches after which the lanes of a warp stayed together, out of all (nvprof's
    /// `branch_efficiency`).
    BranchEfficiency,
    /// Instructions that warps executed.
    Instructions,
    /// Branches after which the lanes of a warp went different ways.
    DivergentBranches,
    /// Wavefronts of shared stores beyond the ideal.
    StoreConflicts,
    /// Wavefronts of shared loads beyond the ideal.
    LoadConflicts,
    /// Wavefronts of shared loads and stores.
    SharedWavefronts,
    /// Loads and stores of shared memory by warps.
    SharedAccesses,
    /// Loads of shared memory for each output of 4 bytes, of full warps: accesses of threads,
    /// however wide.
    SharedLoadsPerOutput,
    /// Loads of global memory by warps.
    GlobalLoads,
    /// Stores to global memory by warps.
    GlobalStores,
    /// Sectors of 32 bytes that loads of global memory touch.
    LoadSectors,
    /// Sectors of 32 bytes that stores to global memory touch.
    StoreSectors,
    /// Bytes of global memory that threads load.
    LoadBytes,
    /// Bytes of global memory that threads store.
    StoreBytes,
    /// Atomics on global memory by warps.
    Atomics,
    /// Atomics on shared memory by warps.
    SharedAtomics,
    /// Turns that lanes take at a bank for atomics on shared memory, beyond the ideal.
    AtomicConflicts,
    /// Block barriers that warps came to.
    Barriers,
    /// Shuffles, votes and barriers of warps.
    WarpSyncs,
    /// Blocks.
    Blocks,
    /// Operations from input to result: launches, clearing memory, adding on the host.
    Steps,
    /// Bytes of scores of attention that are stored in the memory of the device.
    ScoreBytes,
    /// Bytes that caches of keys and values take.
    CacheBytes,
}

impl Metric {
    /// Its value in a run.
    #[must_use]
    pub fn of(self, run: &Measured) -> f64 {
        let c = &run.counters;
        let count = match self {
            Self::WarpEfficiency => {
                return c.thread_instructions as f64 / (32 * c.warp_instructions.max(1)) as f64;
            }
            Self::BranchEfficiency => {
                return (c.branches - c.divergent_branches) as f64 / c.branches.max(1) as f64;
            }
            Self::Instructions => c.warp_instructions,
            Self::DivergentBranches => c.divergent_branches,
            Self::StoreConflicts => c.shared_store_bank_conflicts,
            Self::LoadConflicts => c.shared_load_bank_conflicts,
            Self::SharedWavefronts => c.shared_load_wavefronts + c.shared_store_wavefronts,
            Self::SharedAccesses => c.shared_load_requests + c.shared_store_requests,
            Self::SharedLoadsPerOutput => {
                return (32 * 4 * c.shared_load_requests) as f64 / c.global_store_bytes.max(1) as f64;
            }
            Self::GlobalLoads => c.global_load_requests,
            Self::GlobalStores => c.global_store_requests,
            Self::LoadSectors => c.global_load_sectors,
            Self::StoreSectors => c.global_store_sectors,
            Self::LoadBytes => c.global_load_bytes,
            Self::StoreBytes => c.global_store_bytes,
            Self::Atomics => c.global_atomics,
            Self::SharedAtomics => c.shared_atomics,
            Self::AtomicConflicts => c.shared_atomic_bank_conflicts,
            Self::Barriers => c.barriers,
            Self::WarpSyncs => c.warp_syncs,
            Self::Blocks => run.blocks,
            Self::Steps => run.steps,
            Self::ScoreBytes => run.memory.score_bytes,
            Self::CacheBytes => run.memory.cache_bytes,
        };
        count as f64
    }

    /// A value of it as text.
    pub(crate) fn text(self, value: f64) -> String {
        match self {
            Self::WarpEfficiency | Self::BranchEfficiency => format!("{:.1} %", value * 100.0),
            _ => grouped(value),
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WarpEfficiency => "warp efficiency",
            Self::BranchEfficiency => "branch efficiency",
            Self::Instructions => "warp instructions",
            Self::DivergentBranches => "divergent branches",
            Self::StoreConflicts => "shared-store bank conflicts",
            Self::LoadConflicts => "shared-load bank conflicts",
            Self::SharedWavefronts => "shared wavefronts",
            Self::SharedAccesses => "shared accesses",
            Self::SharedLoadsPerOutput => "shared loads per output",
            Self::GlobalLoads => "global load requests",
            Self::GlobalStores => "global store requests",
            Self::LoadSectors => "sectors loaded",
            Self::StoreSectors => "sectors stored",
            Self::LoadBytes => "bytes loaded",
            Self::StoreBytes => "bytes stored",
            Self::Atomics => "atomics",
            Self::SharedAtomics => "shared atomics",
            Self::AtomicConflicts => "shared-atomic bank conflicts",
            Self::Barriers => "barriers",
            Self::WarpSyncs => "warp-level synchronisations",
            Self::Blocks => "blocks",
            Self::Steps => "steps to the result",
            Self::ScoreBytes => "bytes of stored scores",
            Self::CacheBytes => "bytes of the cache",
        })
    }
}

/// Change of a metric from the previous rung, or from another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Change {
    /// Less.
    Falls,
    /// More.
    Rises,
    /// To nothing, from something.
    ToZero,
    /// From nothing to something: the price of the rung.
    FromZero,
    /// To this part: 4 for a quarter. Exact where the blocks are full.
    DividedBy(u32),
    /// To so many of so many parts: 9 of 16. Exact where the blocks are full.
    ToParts(u32, u32),
}

/// A metric and how it changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Claim {
    /// The metric.
    pub metric: Metric,
    /// Its change.
    pub change: Change,
    /// The rung that it is compared with, where that is not the one before.
    pub against: Option<&'static str>,
}

impl Claim {
    /// A claim.
    #[must_use]
    pub const fn new(metric: Metric, change: Change) -> Self {
        Self { metric, change, against: None }
    }

    /// The claim, compared with the rung of this name.
    #[must_use]
    pub const fn against(self, rung: &'static str) -> Self {
        Self { against: Some(rung), ..self }
    }

    /// Returns whether the claim is true of two runs.
    #[must_use]
    #[allow(clippy::float_cmp, reason = "counts are exact in f64")]
    pub fn holds(&self, before: &Measured, after: &Measured) -> bool {
        let (before, after) = (self.metric.of(before), self.metric.of(after));
        match self.change {
            Change::Falls => after < before,
            Change::Rises => after > before,
            Change::ToZero => before > 0.0 && after == 0.0,
            Change::FromZero => before == 0.0 && after > 0.0,
            Change::DividedBy(n) => after * f64::from(n) == before,
            Change::ToParts(n, of) => after * f64::from(of) == before * f64::from(n),
        }
    }

    /// Returns whether two runs differ in the claimed direction, by whatever factor: at small sizes
    /// some effects go the other way.
    #[must_use]
    pub fn points_the_right_way(&self, before: &Measured, after: &Measured) -> bool {
        let (before, after) = (self.metric.of(before), self.metric.of(after));
        match self.change {
            Change::Falls | Change::ToZero | Change::DividedBy(_) | Change::ToParts(..) => after < before,
            Change::Rises | Change::FromZero => after > before,
        }
    }

    /// Describes the claim's metric in two runs: `shared-store bank conflicts 4,587,520 → 0`.
    #[must_use]
    pub fn describe(&self, before: &Measured, after: &Measured) -> String {
        let text = |run| self.metric.text(self.metric.of(run));
        let against = self.against.map_or_else(String::new, |rung| format!(" against {rung}"));
        format!("{} {} → {}{against}", self.metric, text(before), text(after))
    }
}

/// `4587520` as `4,587,520`.
fn grouped(count: f64) -> String {
    let digits = format!("{count:.0}");
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
