//! Barriers in shared memory, at which threads and asynchronous copies arrive: `mbarrier` (PTX ISA,
//! "mbarrier").

use crate::intrinsics::{mbarrier, memory, sync};
use crate::memory::{Index, Shared, shared_named};
use crate::recorder::with;
use crate::{Operand, Val, loop_until_left};

/// A barrier with phases: a phase completes when as many arrivals have come as it was
/// [initialised](Self::init) for, and as many bytes as were [expected](Self::arrive_expect).
///
/// Phases have parities, 0 first. A wait for parity 1 at a fresh barrier returns at once, as if a
/// phase before the first had completed: so a wait for room starts with it.
#[derive(Debug, Clone, Copy)]
pub struct Barrier {
    place: Shared<u64>,
}

/// Several barriers: one for each stage of a pipeline.
#[derive(Debug, Clone, Copy)]
pub struct Barriers {
    first: Shared<u64>,
    num: u32,
}

/// Allocates barriers. One thread [initialises](Barrier::init) and [publishes](Barriers::publish)
/// them; then the block, or the cluster, synchronises.
#[track_caller]
#[must_use]
pub fn barriers(num: u32) -> Barriers {
    Barriers { first: shared_named("mbarrier", num), num }
}

impl Barriers {
    /// One of the barriers.
    #[track_caller]
    #[must_use]
    pub fn at(self, index: impl Index) -> Barrier {
        Barrier { place: self.first.at(index) }
    }

    /// Number of barriers.
    #[must_use]
    pub const fn len(self) -> u32 {
        self.num
    }

    /// Returns true if there are no barriers.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.num == 0
    }

    /// Initialises all barriers for the same number of arrivals.
    #[track_caller]
    pub fn init(self, arrivals: u32) {
        for i in 0..self.num {
            self.at(i).init(arrivals);
        }
    }

    /// Makes initialised barriers visible to copies and to other blocks of the cluster; for the
    /// thread that initialised them. Records nothing before sm_90, which has neither.
    #[track_caller]
    pub fn publish() {
        with(|r| {
            if r.target.has(90, (8, 0)) {
                mbarrier::fence_init(r);
            }
        });
    }
}

impl Barrier {
    /// Initialises the barrier for this many arrivals per phase.
    #[track_caller]
    pub fn init(self, arrivals: impl Operand<u32>) {
        let arrivals = arrivals.val().raw();
        with(|r| mbarrier::init(r, self.place.location(), arrivals));
    }

    /// Invalidates the barrier: its memory may be reused.
    #[track_caller]
    pub fn invalidate(self) {
        with(|r| mbarrier::invalidate(r, self.place.location()));
    }

    /// Arrives, releasing this thread's earlier writes to the waiting threads.
    #[track_caller]
    pub fn arrive(self) {
        with(|r| mbarrier::arrive(r, self.place.location()));
    }

    /// Arrives at the same barrier in a block of the cluster: to signal that something was read.
    /// This thread's writes are not released to that block; [`cluster_sync`](crate::cluster_sync)
    /// does that.
    #[track_caller]
    pub fn arrive_at(self, block_rank: impl Operand<u32>) {
        let rank = block_rank.val().raw();
        with(|r| {
            let own = memory::whole_address(r, self.place.location());
            let theirs = sync::map_to_block(r, own, rank);
            mbarrier::arrive_remote(r, theirs);
        });
    }

    /// Arrives, and adds this many bytes of copies to the phase's expected transactions.
    #[track_caller]
    pub fn arrive_expect(self, bytes: impl Operand<u32>) {
        let bytes = bytes.val().raw();
        with(|r| mbarrier::arrive_expect(r, self.place.location(), bytes));
    }

    pub(crate) const fn place(self) -> Shared<u64> {
        self.place
    }

    /// Waits until the phase of this parity is complete, and acquires the writes of the arriving
    /// threads and of the copies.
    #[track_caller]
    pub fn wait(self, parity: impl Operand<u32>) {
        self.wait_for(parity.val());
    }

    #[track_caller]
    fn wait_for(self, parity: Val<u32>) {
        loop_until_left(|wait| {
            let complete = with(|r| mbarrier::try_wait(r, self.place.location(), parity.raw()));
            wait.leave_if(Val::<bool>::from_raw(complete));
        });
    }
}

/// Orders this thread's accesses to shared memory before accesses by copies and `wgmma` (async
/// proxy fence): after threads write tiles, before the barrier at which another thread hands them
/// over.
#[track_caller]
pub fn fence_async() {
    with(mbarrier::fence_async);
}
