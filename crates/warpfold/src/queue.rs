//! The stream that operators run on, and the workspace that they share.

use std::any::Any;
use std::collections::HashSet;
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use warpfold_device::{Device, Draws, Stream, View, ViewMut};
use warpfold_kernels::plan::{Family, Key, Plan, PlanCache, PlanCounts, Workspace};
use warpfold_kernels::{AnyKernel, Error};

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
    cache: Arc<PlanCache>,
    /// Nothing for a queue that does what it is given.
    outline: Option<Outline>,
    /// Arena for tensors of the queue; without one they are allocated by the device.
    arena: Mutex<Option<Arena>>,
    /// Random number generator: the device's own for the queue of its default stream.
    draws: Arc<Draws>,
}

/// State of a queue that only plans (dry run).
struct Outline {
    /// Problems that were planned.
    planned: Mutex<HashSet<Key>>,
    /// Kernels that were told.
    told: Mutex<HashSet<u64>>,
    tell: Box<dyn Fn(&AnyKernel) + Send + Sync>,
}

impl Outline {
    fn is_new<P: Any + Clone + fmt::Debug + Eq + Hash + Send + Sync>(&self, problem: &P) -> bool {
        self.planned.lock().unwrap_or_else(PoisonError::into_inner).insert(Key::of(problem.clone()))
    }

    fn tell(&self, plan: &Plan) {
        for kernel in plan.steps.iter().map(|step| &step.kernel) {
            if self.told.lock().unwrap_or_else(PoisonError::into_inner).insert(kernel.id()) {
                (self.tell)(kernel);
            }
        }
    }
}

impl Queue {
    /// A queue for a stream. The workspace is allocated when an operator first needs it, and grows
    /// to the largest need.
    #[must_use]
    pub fn new(stream: Stream) -> Self {
        Self::with(stream, Arc::default(), None, Arc::default())
    }

    fn with(stream: Stream, cache: Arc<PlanCache>, outline: Option<Outline>, draws: Arc<Draws>) -> Self {
        let (workspace, arena) = (Mutex::default(), Mutex::default());
        Self { inner: Arc::new(Inner { stream, workspace, cache, outline, arena, draws }) }
    }

    /// A queue on a new stream of the device, for work side by side, that knows the plans of this
    /// one.
    ///
    /// # Errors
    /// What the device says.
    pub fn beside(&self) -> Result<Self, Error> {
        Ok(Self::with(self.device().new_stream()?, self.inner.cache.clone(), None, Arc::default()))
    }

    /// A queue that plans and does nothing: its tensors have no memory, its operators launch
    /// nothing. `tell` is told every kernel that they would launch, once, so that it can be
    /// [prepared](AnyKernel::prepare) ahead, on another thread, before the data is there. This
    /// queue and those [beside](Self::beside) it then launch the same kernels.
    ///
    /// ```
    /// use std::sync::mpsc::channel;
    /// use warpfold::{Device, Dtype, Profile, Queue, Tensor};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let queue = Queue::of(&device);
    /// let (sender, kernels) = channel();
    /// let outline = queue.outline(move |kernel| sender.send(kernel.clone()).expect("somebody listens"));
    /// Tensor::uninitialized(&outline, Dtype::F32, &[8, 1000])?.softmax(-1)?;
    /// drop(outline);
    /// for kernel in kernels {
    ///     kernel.prepare(&device)?;
    /// }
    /// let before = device.kernel_counts();
    /// Tensor::randn(0.0_f32, 1.0, (8, 1000), &device)?.softmax(-1)?;
    /// // That which draws the elements.
    /// assert_eq!(device.kernel_counts().loaded, before.loaded + 1);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    #[must_use]
    pub fn outline(&self, tell: impl Fn(&AnyKernel) + Send + Sync + 'static) -> Self {
        let outline = Outline { planned: Mutex::default(), told: Mutex::default(), tell: Box::new(tell) };
        Self::with(self.stream().clone(), self.inner.cache.clone(), Some(outline), Arc::default())
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
        let queue = Self::with(device.default_stream(), Arc::default(), None, device.draws().clone());
        queues.push(queue.clone());
        queue
    }

    /// Returns whether the queue [only plans](Self::outline).
    pub(crate) fn is_outline(&self) -> bool {
        self.inner.outline.is_some()
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
    /// [`Device::set_seed`] sets that of the device's own queue.
    pub fn set_seed(&self, seed: u64) {
        self.inner.draws.set_seed(seed);
    }

    /// Seed and number of the next random tensor.
    pub(crate) fn next_draw(&self) -> (u64, u64) {
        self.inner.draws.next()
    }

    /// Returns the numbers of problems planned and found in the plan cache so far.
    #[must_use]
    pub fn plan_counts(&self) -> PlanCounts {
        self.inner.cache.counts()
    }

    /// Returns the plans of the operators that ran here, or on a queue that shares its plans: which
    /// algorithm was chosen for a shape, and each launch. The one that was used last is at the end.
    ///
    /// ```
    /// use warpfold::{Device, Queue, Tensor};
    ///
    /// let queue = Queue::of(&Device::best());
    /// Tensor::from_slice(&[1.0_f32, 2.0, 3.0], &[3], &queue)?.sum_all()?;
    /// assert!(queue.plans()[0].to_string().starts_with("fold: rows"));
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    #[must_use]
    pub fn plans(&self) -> Vec<Plan> {
        self.inner.cache.ready().iter().map(|ready| ready.plan().clone()).collect()
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
        if self.inner.outline.is_some() {
            return Ok(self.device().placeholder::<u8>(bytes).into());
        }
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
        if let Some(outline) = &self.inner.outline {
            if outline.is_new(&problem) {
                outline.tell(&self.inner.cache.outline(self.device(), family, &problem)?);
            }
            return Ok(());
        }
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
