//! A launch: grid, block and parameters, and the options of a run.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::check::Past;
use crate::granted::Granted;
use crate::report::{AskedSteps, FindingKind};

/// One launch of a kernel.
#[derive(Debug, Clone)]
pub struct Launch {
    /// Name of the kernel.
    pub kernel: String,
    /// Blocks in x, y, z.
    pub grid: [u32; 3],
    /// Threads per block in x, y, z.
    pub block: [u32; 3],
    /// Blocks per cluster in x, y, z; `[1, 1, 1]` without clusters.
    pub cluster: [u32; 3],
    /// Dynamic shared memory in bytes.
    pub dynamic_shared: u32,
    /// Parameter bytes, in the layout that the kernel declares (`KernelInfo::params` has the
    /// offsets).
    pub params: Vec<u8>,
    /// True for a cooperative launch: all blocks are resident at once, so they may wait for each
    /// other.
    pub cooperative: bool,
    /// True for a programmatic dependent launch: it may begin before the previous launch in its
    /// [`Stream`] is over. It still runs after that one; the checks find the effects of a missing
    /// `griddepcontrol.wait`.
    pub programmatic: bool,
}

/// An ordered sequence of launches; clones are the same stream. Tracks the launches that
/// programmatic ones may overlap, if they were checked.
#[derive(Clone, Default)]
pub struct Stream(Arc<Mutex<Vec<Arc<Past>>>>);

impl Stream {
    /// Marks all launches so far as over, and visible to all later work.
    pub fn settle(&self) {
        self.leave_open(Vec::new());
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Past>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Earlier launches that a programmatic launch may overlap.
    pub(crate) fn open(&self) -> Vec<Arc<Past>> {
        self.lock().clone()
    }

    pub(crate) fn leave_open(&self, launches: Vec<Arc<Past>>) {
        *self.lock() = launches;
    }
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Stream").field(&self.lock().len()).finish()
    }
}

/// Level of checking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Checks {
    /// Only what hardware traps: out of bounds, misaligned, use after free, deadlock. The first
    /// ends the run.
    #[default]
    None,
    /// Everything: races, uses of uninitialised memory, divergent barriers; the run goes on after a
    /// finding.
    All,
    /// Like `All`, and a launch with a [failure](crate::Finding::is_failure) returns
    /// [`Error::Findings`](crate::Error::Findings).
    Deny,
}

impl Checks {
    /// Describes what the checks examine and what they do not, in a sentence or two: the meaning of
    /// a run without findings.
    #[must_use]
    pub const fn examined(self) -> &'static str {
        match self {
            Self::None => {
                "looked at: addresses, alignment, deadlocks, traps. Not looked at: races, uninitialised memory, \
                 divergent barriers, missing waits and fences (all checks)"
            }
            Self::All | Self::Deny => {
                "looked at: addresses, alignment, races, uses of uninitialised global and shared memory, what the host \
                 reads of it, barriers, warp synchronisation, asynchronous copies, the device heap, deadlocks, of this \
                 grid with these arguments. Not looked at: branches that were not taken, other orders of blocks, \
                 warps and copies (a seed draws one), local memory and registers that were never written, whether values are right"
            }
        }
    }
}

/// Options of a launch.
#[derive(Clone)]
pub struct Options {
    /// Checks to run.
    pub checks: Checks,
    /// Host threads; `None` is one per core. One worker makes a run fully deterministic, including
    /// the order of float atomics.
    pub workers: Option<usize>,
    /// Keeps counters per instruction as well as totals.
    pub per_instruction: bool,
    /// With counters per instruction, the number of accesses of one warp to record for each, with
    /// addresses.
    pub record: usize,
    /// Enables the model of the L1 data cache ([`L1Model`](crate::L1Model)), at the cost of a
    /// look-up per sector.
    pub l1: bool,
    /// Records what a [prediction of time](crate::Report::predict) needs: counters per instruction,
    /// hits in the model of the L1, and the distinct sectors of global memory.
    pub timing: bool,
    /// Sink for `vprintf`; standard output when `None`.
    pub output: Option<Arc<dyn Fn(&str) + Send + Sync>>,
    /// Warp instructions without any progress after which a run is considered deadlocked.
    pub patience: u64,
    /// Warp instructions that a worker may execute for one launch: beyond that a run is considered
    /// endless, and the finding names its loop. 2^36 by default, half an hour or more.
    pub limit: u64,
    /// Seed of the order in which asynchronous copies complete, blocks begin and warps run: 0 is as
    /// late as the rules allow, and increasing; any other number draws an order. The same seed on
    /// one worker gives the same run.
    pub seed: u64,
    /// Flag that ends the run when set, like the instruction limit.
    pub stop: Option<Arc<AtomicBool>>,
    /// Kinds of warnings allowed under [`Checks::Deny`]; see
    /// [`Finding::is_failure`](crate::Finding::is_failure).
    pub allowed: Vec<FindingKind>,
    /// Also reports lanes of one store that write the same value to the same bytes. Harmless on
    /// hardware, and compilers rely on it.
    pub report_same_value: bool,
    /// Memory ranges of the launch. In a buffer that contains any of them, checked launches report
    /// accesses outside all of them and writes to those that are not
    /// [`writable`](Granted::writable). Empty: unknown.
    pub granted: Vec<Granted>,
    /// The stream of the launch; without one, it overlaps no other launch.
    pub stream: Option<Stream>,
    /// Records each step of one warp, and who stored to some memory last. The launch then has one
    /// worker.
    pub steps: Option<AskedSteps>,
    /// Called from time to time with the number of finished blocks and the total.
    pub progress: Option<Arc<dyn Fn(u64, u64) + Send + Sync>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            checks: Checks::None,
            workers: None,
            per_instruction: false,
            record: 0,
            l1: false,
            timing: false,
            output: None,
            patience: 50_000_000,
            limit: 1 << 36,
            seed: 0,
            stop: None,
            allowed: Vec::new(),
            report_same_value: false,
            granted: Vec::new(),
            stream: None,
            steps: None,
            progress: None,
        }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("checks", &self.checks)
            .field("workers", &self.workers)
            .field("per_instruction", &self.per_instruction)
            .field("record", &self.record)
            .field("l1", &self.l1)
            .field("timing", &self.timing)
            .field("patience", &self.patience)
            .field("limit", &self.limit)
            .field("seed", &self.seed)
            .field("allowed", &self.allowed)
            .field("report_same_value", &self.report_same_value)
            .field("granted", &self.granted)
            .field("stream", &self.stream)
            .field("steps", &self.steps)
            .finish_non_exhaustive()
    }
}
