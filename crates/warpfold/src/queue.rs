//! The stream that operators run on, and the workspace that they share.

use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use warpfold_device::{Device, Stream, View, ViewMut};
use warpfold_kernels::Error;
use warpfold_kernels::plan::{Family, PlanCache, PlanCounts, Workspace};

use crate::arena::{Arena, Memory};

/// A stream with a workspace. Cheap to clone; clones are the same queue.
///
/// Operators on one queue run one after the other and share its workspace; for work side by side,
/// take two queues. What they do on a stream other than the device's default one can be noted as a
/// graph and done again: see [`Stream::capture`].
#[derive(Clone)]
pub struct Queue {
    inner: Arc<Inner>,
}

struct Inner {
    stream: Stream,
    workspace: Mutex<Workspace>,
    cache: PlanCache,
    /// Where tensors take their memory from, if not from the device.
    arena: Mutex<Option<Arena>>,
    /// The seed of random tensors, and how many were drawn from it.
    random: Mutex<(u64, u64)>,
}

impl Queue {
    /// A queue for a stream. The workspace is allocated when an operator first needs it, and grows
    /// to the largest need.
    #[must_use]
    pub fn new(stream: Stream) -> Self {
        Self {
            inner: Arc::new(Inner {
                stream,
                workspace: Mutex::default(),
                cache: PlanCache::default(),
                arena: Mutex::default(),
                random: Mutex::default(),
            }),
        }
    }

    /// The queue of a device's default stream: every tensor's unless it is told another.
    #[must_use]
    pub fn of(device: &Device) -> Self {
        // One entry a device that this process uses; a device stays alive with its entry.
        static QUEUES: LazyLock<Mutex<Vec<Queue>>> = LazyLock::new(Mutex::default);
        let mut queues = QUEUES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(queue) = queues.iter().find(|queue| queue.device() == device) {
            return queue.clone();
        }
        let queue = Self::new(device.default_stream());
        queues.push(queue.clone());
        queue
    }

    /// The stream.
    #[must_use]
    pub fn stream(&self) -> &Stream {
        &self.inner.stream
    }

    /// The device of the stream.
    #[must_use]
    pub fn device(&self) -> &Device {
        self.inner.stream.device()
    }

    /// The seed of the random tensors to come ([`Tensor::rand`](crate::Tensor::rand) and others);
    /// 0 until it is set. The n-th tensor after it has the same elements on every device.
    pub fn set_seed(&self, seed: u64) {
        *self.inner.random.lock().unwrap_or_else(PoisonError::into_inner) = (seed, 0);
    }

    /// Seed and number of the next random tensor.
    pub(crate) fn next_draw(&self) -> (u64, u64) {
        let mut random = self.inner.random.lock().unwrap_or_else(PoisonError::into_inner);
        let (seed, draw) = *random;
        random.1 += 1;
        (seed, draw)
    }

    /// How many problems were planned and how many were known, so far.
    #[must_use]
    pub fn plan_counts(&self) -> PlanCounts {
        self.inner.cache.counts()
    }

    /// Does work whose tensors of this queue take their memory from an arena, and give it back when
    /// they are dropped.
    pub fn reuse<R>(&self, arena: &Arena, work: impl FnOnce() -> R) -> R {
        let _restored = Reusing { queue: self, before: self.arena().replace(arena.clone()) };
        work()
    }

    fn arena(&self) -> MutexGuard<'_, Option<Arena>> {
        self.inner.arena.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Memory for a tensor, of any content.
    pub(crate) fn allocate(&self, bytes: usize) -> Result<Memory, Error> {
        let arena = self.arena().clone();
        match arena {
            Some(arena) if bytes > 0 => arena.take(self.device(), bytes),
            _ => Ok(self.device().alloc::<u8>(bytes)?.into()),
        }
    }

    /// Enqueues what a family computes for a problem, with a plan that is made the first time.
    pub(crate) fn run<F: Family>(
        &self,
        family: &F,
        problem: F::Problem,
        inputs: &[Option<View<'_, u8>>],
        outputs: &mut [ViewMut<'_, u8>],
    ) -> Result<(), Error> {
        let ready = self.inner.cache.get(self.device(), family, problem)?;
        ready.launch(self.stream(), inputs, outputs, &mut self.workspace())
    }

    pub(crate) fn workspace(&self) -> MutexGuard<'_, Workspace> {
        self.inner.workspace.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Gives a queue back the arena that it had before.
struct Reusing<'a> {
    queue: &'a Queue,
    before: Option<Arena>,
}

impl Drop for Reusing<'_> {
    fn drop(&mut self) {
        *self.queue.arena() = self.before.take();
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Queue(on {})", self.device())
    }
}
