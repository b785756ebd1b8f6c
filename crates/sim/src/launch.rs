//! A launch: grid, block and parameters, and the options of a run.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::check::Past;
use crate::granted::Granted;
use crate::report::FindingKind;

/// One launch of a kernel.
#[derive(Debug, Clone)]
pub struct Launch {
    /// Entry name.
    pub kernel: String,
    /// Blocks in x, y, z.
    pub grid: [u32; 3],
    /// Threads a block in x, y, z.
    pub block: [u32; 3],
    /// Blocks a cluster in x, y, z; `[1, 1, 1]` without clusters.
    pub cluster: [u32; 3],
    /// Dynamic shared memory in bytes.
    pub dynamic_shared: u32,
    /// Parameter bytes, laid out as the kernel declares them (`KernelInfo::params` has the
    /// offsets).
    pub params: Vec<u8>,
    /// All blocks are co-resident, so that they may wait for one another.
    pub cooperative: bool,
    /// It may begin before the launch before it in its [`Stream`] is over: a programmatic dependent
    /// launch. It runs after that one all the same; the checks find what a missing
    /// `griddepcontrol.wait` would let happen.
    pub programmatic: bool,
}

/// An order of launches, each after the one before; clones are the same stream. It knows what
/// programmatic launches may overlap, as far as that was checked.
#[derive(Clone, Default)]
pub struct Stream(Arc<Mutex<Vec<Arc<Past>>>>);

impl Stream {
    /// Everything that was launched so far is over and seen before anything that comes.
    pub fn settle(&self) {
        self.leave_open(Vec::new());
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Past>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a programmatic launch may overlap.
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

/// Which checks to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Checks {
    /// Only what hardware traps: out of bounds, misaligned, use after free, deadlock. The first
    /// ends the run.
    #[default]
    None,
    /// Everything: races, uses of uninitialised memory, divergent barriers; the run goes on after a
    /// finding.
    All,
    /// The same, and a launch with a finding that [is a failure](crate::Finding::is_failure) is an
    /// [`Error::Findings`](crate::Error::Findings).
    Deny,
}

impl Checks {
    /// What they look at and what they do not, in a sentence or two: what it means that nothing was
    /// found.
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

/// How to run a launch.
#[derive(Clone)]
pub struct Options {
    /// Which checks to run.
    pub checks: Checks,
    /// Host threads; `None` takes one a core. One worker makes a run fully deterministic, order of
    /// float atomics included.
    pub workers: Option<usize>,
    /// Keep counters per instruction as well as totals.
    pub per_instruction: bool,
    /// With counters per instruction, keep so many accesses of one warp for each of them, addresses
    /// and all.
    pub record: usize,
    /// Count hits in a model of the L1 data cache ([`L1Model`](crate::L1Model)), at the cost of a
    /// look-up for each sector.
    pub l1: bool,
    /// Keep what a [prediction of time](crate::Report::predict) needs: counters per instruction,
    /// hits in the model of the L1, and the distinct sectors of global memory.
    pub timing: bool,
    /// Where `vprintf` writes; standard output when `None`.
    pub output: Option<Arc<dyn Fn(&str) + Send + Sync>>,
    /// Warp instructions without any progress after which a run counts as deadlocked.
    pub patience: u64,
    /// Warp instructions that a worker may execute for one launch: after them a run counts as
    /// endless, and the finding names the loop that it is in. 2^36 by default, half an hour or
    /// more.
    pub limit: u64,
    /// The order in which asynchronous copies land, blocks begin and warps run: with 0, as late as
    /// the rules allow, and increasing; any other number draws one. The same seed on one worker gives the
    /// same run.
    pub seed: u64,
    /// Ends the run, once it is set, as a launch that has reached its limit.
    pub stop: Option<Arc<AtomicBool>>,
    /// Kinds of warnings that [`Checks::Deny`] lets pass; see [`Finding::is_failure`](crate::Finding::is_failure).
    pub allowed: Vec<FindingKind>,
    /// Report, too, where lanes of one store put the same value into the same bytes. Hardware makes
    /// nothing of it, and compilers rely on that.
    pub report_same_value: bool,
    /// The parts of memory that the launch was given. Of a buffer that any of them lies in, checked
    /// launches report accesses outside all of them and writes to those that are not
    /// [`writable`](Granted::writable). Empty: nothing is known.
    pub granted: Vec<Granted>,
    /// The launches that it comes after; without, a launch overlaps none.
    pub stream: Option<Stream>,
    /// Called now and then with blocks finished and blocks in all.
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
            .finish_non_exhaustive()
    }
}
