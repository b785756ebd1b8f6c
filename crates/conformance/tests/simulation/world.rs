//! Virtual time, and tasks that run when it is their turn.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};

/// A time that is set, and those who wait for it.
#[derive(Debug, Clone)]
pub(crate) struct VirtualTime {
    base: Instant,
    sleepers: Arc<Mutex<Sleepers>>,
    /// Those who wait are woken.
    wakes: bool,
}

#[derive(Debug, Default)]
struct Sleepers {
    now: Duration,
    last: u64,
    wakers: BTreeMap<(Duration, u64), Waker>,
}

impl VirtualTime {
    pub(crate) fn new(wakes: bool) -> Self {
        Self { base: Instant::now(), sleepers: Arc::default(), wakes }
    }

    fn sleepers(&self) -> MutexGuard<'_, Sleepers> {
        self.sleepers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Duration {
        self.sleepers().now
    }

    /// The next time for which somebody waits.
    pub(crate) fn next(&self) -> Option<Duration> {
        self.sleepers().wakers.first_key_value().map(|((at, _), _)| *at)
    }

    /// Goes on to a time, and wakes those who waited for it.
    pub(crate) fn set(&self, to: Duration) {
        let mut sleepers = self.sleepers();
        sleepers.now = sleepers.now.max(to);
        let later = sleepers.wakers.split_off(&(to, u64::MAX));
        let due = std::mem::replace(&mut sleepers.wakers, later);
        drop(sleepers);
        due.into_values().filter(|_| self.wakes).for_each(Waker::wake);
    }
}

impl Timer for VirtualTime {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        let mut sleepers = self.sleepers();
        sleepers.last += 1;
        let key = (sleepers.now + duration, sleepers.last);
        Box::pin(TimedSleep { time: self.clone(), key })
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        self.sleep((deadline - self.base).saturating_sub(self.now()))
    }

    fn now(&self) -> Instant {
        self.base + self.now()
    }
}

/// One who waits.
struct TimedSleep {
    time: VirtualTime,
    key: (Duration, u64),
}

impl Sleep for TimedSleep {}

impl Future for TimedSleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut sleepers = self.time.sleepers();
        if sleepers.now >= self.key.0 {
            return Poll::Ready(());
        }
        sleepers.wakers.insert(self.key, cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for TimedSleep {
    fn drop(&mut self) {
        self.time.sleepers().wakers.remove(&self.key);
    }
}

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Tasks, of which those that were woken may run. One that nobody wakes never does.
#[derive(Default)]
pub(crate) struct WokenTasks {
    all: BTreeMap<usize, Task>,
    woken: Arc<Mutex<BTreeSet<usize>>>,
    last: usize,
}

struct TaskWaker {
    id: usize,
    woken: Arc<Mutex<BTreeSet<usize>>>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.woken.lock().unwrap_or_else(PoisonError::into_inner).insert(self.id);
    }
}

impl WokenTasks {
    fn woken(&self) -> MutexGuard<'_, BTreeSet<usize>> {
        self.woken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.last += 1;
        self.all.insert(self.last, Box::pin(task));
        self.woken().insert(self.last);
    }

    /// Tasks that have not ended.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn num_woken(&self) -> usize {
        self.woken().len()
    }

    /// Runs one of those that were woken, as far as it goes.
    pub(crate) fn run(&mut self, nth: usize) {
        let id = self.woken().iter().nth(nth).copied();
        let Some(id) = id else { return };
        self.woken().remove(&id);
        let Some(task) = self.all.get_mut(&id) else { return };
        let waker = Waker::from(Arc::new(TaskWaker { id, woken: self.woken.clone() }));
        if task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
            self.all.remove(&id);
        }
    }

    /// Drops all of them.
    pub(crate) fn clear(&mut self) {
        self.all.clear();
        self.woken().clear();
    }
}
