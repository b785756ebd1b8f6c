//! A ring of stages between producers and consumers.

use super::barrier::{Barrier, Barriers, barriers};
use crate::{Val, Var, var};

/// A full and an empty barrier for each stage of the ring.
///
/// ```text
/// producer:  acquire(at) ─ copies, arriving at full(at) ─ at.advance()
/// consumer:  wait(at)    ─ reads the stage ─ release: empty(at).arrive() ─ at.advance()
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Pipeline {
    full: Barriers,
    empty: Barriers,
}

/// A thread's position in the ring: a stage, and the parity of its round.
#[derive(Debug, Clone, Copy)]
pub struct Cursor {
    stage: Var<u32>,
    parity: Var<u32>,
    num: u32,
}

impl Pipeline {
    /// Allocates barriers for this many stages.
    #[track_caller]
    #[must_use]
    pub fn new(stages: u32) -> Self {
        Self { full: barriers(stages), empty: barriers(stages) }
    }

    /// Initialises the barriers with the number of arrivals that make a stage full, and of those
    /// that make it empty. For one thread, before the block, or the cluster, synchronises.
    #[track_caller]
    pub fn init(self, fillers: u32, readers: u32) {
        self.full.init(fillers);
        self.empty.init(readers);
        Barriers::publish();
    }

    /// Number of stages.
    #[must_use]
    pub const fn stages(self) -> u32 {
        self.full.len()
    }

    /// The first stage, in the first round.
    #[track_caller]
    #[must_use]
    pub fn start(self) -> Cursor {
        Cursor { stage: var(0), parity: var(0), num: self.full.len() }
    }

    /// For a producer: waits until the stage is empty, as all are at first.
    #[track_caller]
    pub fn acquire(self, at: Cursor) {
        self.empty(at).wait(at.parity.get() ^ 1);
    }

    /// For a consumer: waits until the stage is full.
    #[track_caller]
    pub fn wait(self, at: Cursor) {
        self.full(at).wait(at.parity);
    }

    /// The barrier at which the stage's copies arrive.
    #[track_caller]
    #[must_use]
    pub fn full(self, at: Cursor) -> Barrier {
        self.full.at(at.stage)
    }

    /// The barrier at which its readers arrive to release it.
    #[track_caller]
    #[must_use]
    pub fn empty(self, at: Cursor) -> Barrier {
        self.empty.at(at.stage)
    }
}

impl Cursor {
    /// An independent cursor at the same place.
    #[track_caller]
    #[must_use]
    pub fn copy(self) -> Self {
        Self { stage: var(self.stage.get()), parity: var(self.parity.get()), num: self.num }
    }

    /// The stage.
    #[track_caller]
    #[must_use]
    pub fn stage(self) -> Val<u32> {
        self.stage.get()
    }

    /// Advances to the next stage; after the last one, to the first stage of the next round.
    #[track_caller]
    pub fn advance(self) {
        let next = self.stage.get() + 1;
        let wraps = next.eq(self.num);
        self.parity.set(self.parity.get() ^ wraps.cast::<u32>());
        self.stage.set(wraps.select(0_u32, next));
    }
}
