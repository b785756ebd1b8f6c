//! Position of a thread in its grid, and the barriers of its block.

use crate::flow::when;
use crate::intrinsics::special::{self, Register};
use crate::intrinsics::sync::{self, Census};
use crate::intrinsics::{arithmetic, logic};
use crate::kernel::Threads;
use crate::recorder::{Computed, Raw, Recorder, with};
use crate::types::Type;
use crate::{Operand, Val};

/// A position or a size in three dimensions.
#[derive(Debug, Clone, Copy)]
pub struct Xyz {
    /// The fastest dimension: threads with neighbouring `x` share a warp.
    pub x: Val<u32>,
    /// The middle dimension.
    pub y: Val<u32>,
    /// The slowest dimension.
    pub z: Val<u32>,
}

impl Xyz {
    pub(crate) fn read(r: &mut Recorder, register: Register) -> Self {
        let mut component = |c| Val::from_raw(special::constant(r, register, Some(c)));
        Self { x: component('x'), y: component('y'), z: component('z') }
    }

    fn constant(dims: [u32; 3]) -> Self {
        let [x, y, z] = dims.map(Val::constant);
        Self { x, y, z }
    }

    /// The product of all three.
    #[must_use]
    #[track_caller]
    pub fn count(self) -> Val<u32> {
        self.x * self.y * self.z
    }
}

fn required_block() -> Option<[u32; 3]> {
    match with(|r| r.bounds.threads) {
        Threads::Required(dims) => Some(dims),
        Threads::Free | Threads::Max(_) => None,
    }
}

/// The thread's position in its block. A dimension in which a [required
/// block](crate::Kernel::required_block) has one thread is the constant 0.
#[must_use]
#[track_caller]
pub fn thread_idx() -> Xyz {
    let mut position = with(|r| Xyz::read(r, Register::Tid));
    if let Some(dims) = required_block() {
        for (component, size) in [&mut position.x, &mut position.y, &mut position.z].into_iter().zip(dims) {
            if size == 1 {
                *component = Val::constant(0);
            }
        }
    }
    position
}

/// The block's position in the grid.
#[must_use]
#[track_caller]
pub fn block_idx() -> Xyz {
    with(|r| Xyz::read(r, Register::Ctaid))
}

/// The size of a block; a constant if the kernel [requires](crate::Kernel::required_block) it.
#[must_use]
#[track_caller]
pub fn block_dim() -> Xyz {
    required_block().map_or_else(|| with(|r| Xyz::read(r, Register::Ntid)), Xyz::constant)
}

/// The number of blocks in each dimension.
#[must_use]
#[track_caller]
pub fn grid_dim() -> Xyz {
    with(|r| Xyz::read(r, Register::Nctaid))
}

/// The thread's number in its block, `x` fastest.
#[must_use]
#[track_caller]
pub fn linear_thread_idx() -> Val<u32> {
    let (position, size) = (thread_idx(), block_dim());
    if position.y.known() == Some(0) && position.z.known() == Some(0) {
        return position.x;
    }
    Val::from_raw(with(|r| {
        r.computed(Computed::LinearThreadIdx, |r| {
            let row = arithmetic::fma(r, Type::U32, position.z.raw(), size.y.raw(), position.y.raw());
            arithmetic::fma(r, Type::U32, row, size.x.raw(), position.x.raw())
        })
    }))
}

/// The number of the thread's warp in its block. Computed: `%warpid` may change while a thread
/// runs.
#[must_use]
#[track_caller]
pub fn warp_id() -> Val<u32> {
    let thread = linear_thread_idx().raw();
    Val::from_raw(with(|r| r.computed(Computed::WarpId, |r| logic::shift(r, false, Type::U32, thread, Raw::Const(5)))))
}

macro_rules! registers {
    ($($(#[$doc:meta])* $function:ident $read:ident $register:ident $rust:ty;)*) => {$(
        $(#[$doc])*
        #[must_use]
        #[track_caller]
        pub fn $function() -> Val<$rust> {
            Val::from_raw(with(|r| special::$read(r, Register::$register, None)))
        }
    )*};
}

registers! {
    /// The thread's position in its warp, 0 to 31.
    lane_id constant Laneid u32;
    /// The lanes before this one, as a mask.
    lanes_before constant LanemaskLt u32;
    /// This lane, as a mask.
    this_lane constant LanemaskEq u32;
    /// The lanes after this one, as a mask.
    lanes_after constant LanemaskGt u32;
    /// A counter of clock cycles of the multiprocessor.
    clock read Clock64 u64;
    /// Nanoseconds since some fixed time.
    global_timer read Globaltimer u64;
    /// The multiprocessor that runs the thread at this moment.
    multiprocessor_id read Smid u32;
}

/// Waits for all threads of the block, and makes their earlier writes visible to each other
/// (`__syncthreads`).
#[track_caller]
pub fn sync_threads() {
    with(|r| sync::barrier_sync(r, 0, None));
}

/// One of the block's sixteen barriers, for some of its warps: `threads` of them, a multiple of 32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedBarrier {
    /// 0 to 15; [`sync_threads`] uses 0.
    pub id: u32,
    /// Number of threads that synchronise here, including those that only arrive.
    pub threads: u32,
}

impl NamedBarrier {
    /// Arrives and waits for the others.
    #[track_caller]
    pub fn sync(self) {
        with(|r| sync::barrier_sync(r, self.id, Some(self.threads)));
    }

    /// Arrives without waiting.
    #[track_caller]
    pub fn arrive(self) {
        with(|r| sync::barrier_arrive(r, self.id, self.threads));
    }
}

/// Several of the block's sixteen barriers, of which a thread selects one at run time: for
/// warpgroups in ping-pong.
///
/// ```
/// use warpfold_lang::{Arch, Global, NamedBarriers, Target, kernel, range, warpgroup_idx, when};
/// // Two warpgroups go through a section in turns ("ping-pong"). Each waits at its own barrier, and arrives at the
/// // other's when it has passed; the first arrival is a gift to warpgroup 0.
/// let turns = kernel("turns", |rounds: Global<u32>| {
///     let (own, turn) = (warpgroup_idx(), NamedBarriers { first: 4, num: 2, threads: 256 });
///     when(own.eq(1), || turn.arrive(0));
///     range(0, rounds.get(), 1, |_| {
///         turn.sync(own);
///         // the section: what one warpgroup does at a time
///         turn.arrive(own ^ 1);
///     });
/// });
/// let ptx = turns.required_block(256).ptx(&Target::new(Arch::SM_90A, (8, 0)))?;
/// assert!(ptx.contains("bar.arrive"));
/// # Ok::<(), warpfold_lang::Error>(())
/// ```
///
/// [`sync_warpgroup`](crate::sync_warpgroup) takes the barriers from 1 on, one for each warpgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedBarriers {
    /// The index of the first barrier, 0 to 15.
    pub first: u32,
    /// Number of barriers.
    pub num: u32,
    /// Threads per barrier, including those that only arrive; a multiple of 32.
    pub threads: u32,
}

impl NamedBarriers {
    /// Arrives at barrier `index` and waits for the others.
    #[track_caller]
    pub fn sync(self, index: impl Operand<u32>) {
        let barrier = self.number(index.val());
        with(|r| sync::barrier_sync_of(r, barrier, self.threads));
    }

    /// Arrives at barrier `index` without waiting.
    #[track_caller]
    pub fn arrive(self, index: impl Operand<u32>) {
        let barrier = self.number(index.val());
        with(|r| sync::barrier_arrive_of(r, barrier, self.threads));
    }

    #[track_caller]
    fn number(self, index: Val<u32>) -> Raw {
        let last = index.known().unwrap_or(self.num.max(1) - 1);
        with(|r| sync::check_barrier(r, self.first.saturating_add(last), self.threads));
        (index + self.first).raw()
    }
}

fn barrier_census(census: Census, condition: Raw) -> Raw {
    with(|r| sync::barrier_census(r, census, condition))
}

/// [`sync_threads`], returning the number of threads for which the condition holds.
#[must_use]
#[track_caller]
pub fn sync_threads_count(condition: impl Operand<bool>) -> Val<u32> {
    Val::from_raw(barrier_census(Census::Count, condition.val().raw()))
}

/// [`sync_threads`], returning true if the condition holds for all threads.
#[must_use]
#[track_caller]
pub fn sync_threads_and(condition: impl Operand<bool>) -> Val<bool> {
    Val::from_raw(barrier_census(Census::All, condition.val().raw()))
}

/// [`sync_threads`], returning true if the condition holds for any thread.
#[must_use]
#[track_caller]
pub fn sync_threads_or(condition: impl Operand<bool>) -> Val<bool> {
    Val::from_raw(barrier_census(Census::Any, condition.val().raw()))
}

/// Suspends the thread for about this long.
#[track_caller]
pub fn nanosleep(nanoseconds: impl Operand<u32>) {
    let nanoseconds = nanoseconds.val().raw();
    with(|r| sync::nanosleep(r, nanoseconds));
}

/// Waits until the launches that this one depends on have ended and all their writes are visible
/// (`griddepcontrol.wait`). Records nothing for targets before sm_90, where launches begin in that
/// state.
///
/// A kernel that waits is launched as a *programmatic dependent launch*, without its launcher's
/// involvement: its blocks begin while those of the previous launch still finish, which hides
/// launch latency. So **every thread** must pass the wait **before it accesses global memory** in
/// any way: loads and stores, atomics, tickets and counters of a workspace, bulk copies. Then the
/// order is transitive: a launch has not ended before all its threads have waited for the one
/// before it, so a wait for it is a wait for all. Allowed before the wait: reading parameters and
/// special registers, preparing shared memory and mbarriers, barriers, and prefetches of global
/// memory and of tensor maps that are parameters, since a later load finds any write made in
/// between. A wait inside a branch or a loop, or after an access to global memory or a thread's
/// exit, is an [error](crate::ErrorKind::Misuse).
///
/// PTX ISA, "Parallel Synchronization and Communication Instructions: griddepcontrol".
#[track_caller]
pub fn wait_for_dependencies() {
    with(|r| sync::wait_for_dependencies(r, sync::Constants::None));
}

/// [`wait_for_dependencies`], after bulk copies to shared memory ([`TensorMap::load`],
/// [`Shared::copy_bulk`]) of data that no launch still running may write, such as weights: these
/// copies start before the previous launch has ended.
///
/// The caller guarantees that, looking back further than one launch: if each launch of a stream
/// allows the next one to begin early, several may run at once.
///
/// [`TensorMap::load`]: crate::TensorMap::load
/// [`Shared::copy_bulk`]: crate::Pointer::copy_bulk
#[track_caller]
pub fn wait_for_dependencies_after_constants() {
    with(|r| sync::wait_for_dependencies(r, sync::Constants::Loaded));
}

/// Allows the next launch to begin once all blocks have executed this or exited
/// (`griddepcontrol.launch_dependents`), instead of once all have exited. Records nothing for
/// targets before sm_90.
///
/// It does not affect correctness, since that launch [waits](wait_for_dependencies) for the end of
/// this one. Its blocks only take free resources, never those of blocks of this launch, which have
/// all begun. Waiting blocks have a cost, so measure before use.
#[track_caller]
pub fn launch_dependents() {
    with(sync::launch_dependents);
}

/// [`launch_dependents`], if the grid has at most this many blocks: the blocks of the next launch
/// then wait on free multiprocessors. Records nothing for targets before sm_90.
#[track_caller]
pub fn launch_dependents_of_few(blocks: u32) {
    if with(sync::has_dependent_launches) {
        let grid = grid_dim();
        when((grid.x * grid.y * grid.z).le(blocks), launch_dependents);
    }
}
