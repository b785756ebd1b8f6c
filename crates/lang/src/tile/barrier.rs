//! Barriers in shared memory, at which threads and bulk copies arrive: `mbarrier` (PTX ISA,
//! "mbarrier").

use crate::intrinsics::{mbarrier, memory, sync};
use crate::memory::{Index, Shared, shared_named};
use crate::recorder::with;
use crate::{Operand, Val, loop_until_left};

/// A barrier that goes through phases: one is complete when as many arrivals came as it was
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

/// Room for barriers. One thread [initialises](Barrier::init) them and
/// [publishes](Barriers::publish) that; then the block, or the cluster, synchronises.
#[track_caller]
#[must_use]
pub fn barriers(num: u32) -> Barriers {
    Barriers { first: shared_named("mbarrier", num), num }
}

impl Barriers {
    /// One of them.
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

    /// Initialises all for the same number of arrivals.
    #[track_caller]
    pub fn init(self, arrivals: u32) {
        for i in 0..self.num {
            self.at(i).init(arrivals);
        }
    }

    /// Lets copies and other blocks of the cluster see that barriers are initialised; for the
    /// thread that did it. Nothing where there is neither (before sm_90).
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
    /// Starts its first phase, to be completed by so many arrivals.
    #[track_caller]
    pub fn init(self, arrivals: impl Operand<u32>) {
        let arrivals = arrivals.val().raw();
        with(|r| mbarrier::init(r, self.place.location(), arrivals));
    }

    /// Ends its life: its memory may be used for anything else.
    #[track_caller]
    pub fn invalidate(self) {
        with(|r| mbarrier::invalidate(r, self.place.location()));
    }

    /// Arrives, and lets those who wait see what this thread wrote before.
    #[track_caller]
    pub fn arrive(self) {
        with(|r| mbarrier::arrive(r, self.place.location()));
    }

    /// Arrives at the same barrier of a block of the cluster: to say that something was read. What
    /// this thread wrote is not published to that block; [`cluster_sync`](crate::cluster_sync) does
    /// that.
    #[track_caller]
    pub fn arrive_at(self, block_rank: impl Operand<u32>) {
        let rank = block_rank.val().raw();
        with(|r| {
            let own = memory::whole_address(r, self.place.location());
            let theirs = sync::map_to_block(r, own, rank);
            mbarrier::arrive_remote(r, theirs);
        });
    }

    /// Arrives, and lets the phase wait for so many bytes of copies as well.
    #[track_caller]
    pub fn arrive_expect(self, bytes: impl Operand<u32>) {
        let bytes = bytes.val().raw();
        with(|r| mbarrier::arrive_expect(r, self.place.location(), bytes));
    }

    pub(crate) const fn place(self) -> Shared<u64> {
        self.place
    }

    /// Waits until the phase of this parity is complete, and sees what those who arrived had
    /// written, and what copies brought.
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

/// Orders this thread's accesses to shared memory before what copies and `wgmma` do with it: after
/// tiles were written by threads, before the barrier behind which another thread hands them on.
#[track_caller]
pub fn fence_async() {
    with(mbarrier::fence_async);
}
