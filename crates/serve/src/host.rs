//! Surroundings of a server: timers, and threads for work that takes long.
//!
//! A [`Server`](crate::Server) has tokio's. A [`SimulatedServer`](crate::SimulatedServer) has its
//! owner's timer and no threads, so that nothing in it depends on the system.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};
use hyper_util::rt::TokioTimer;

/// Timers and threads.
#[derive(Clone)]
pub(crate) struct Host {
    timer: Arc<dyn Timer + Send + Sync>,
    threads: WorkThreads,
    fault: Option<ServeFault>,
}

/// A fault of the server itself that a simulation plants, to see that it is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServeFault {
    /// An update with text is not passed on.
    UpdateIsLost,
    /// A request that has started keeps its place in the queue.
    TurnIsKept,
    /// A stream that fails ends without a word.
    ErrorIsSwallowed,
    /// The answers to a prompt come in another order.
    ChoicesAreSwapped,
    /// A body may have any number of bytes.
    BodyBoundIsIgnored,
    /// A body may take any time.
    BodyTimeIsIgnored,
    /// The headers of a request may take any time.
    HeaderTimeIsIgnored,
    /// A client may take nothing for any time.
    WriteTimeIsIgnored,
    /// A new adapter takes the place of one that requests have.
    TakenPlaceIsGiven,
    /// Answers name the weights of before.
    OldWeightsAreNamed,
}

impl ServeFault {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::UpdateIsLost,
        Self::TurnIsKept,
        Self::ErrorIsSwallowed,
        Self::ChoicesAreSwapped,
        Self::BodyBoundIsIgnored,
        Self::BodyTimeIsIgnored,
        Self::HeaderTimeIsIgnored,
        Self::WriteTimeIsIgnored,
        Self::TakenPlaceIsGiven,
        Self::OldWeightsAreNamed,
    ];
}

/// The place of work that takes long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WorkThreads {
    /// On tokio's threads for it.
    Tokio,
    /// On the one thread that there is, a moment later.
    None,
}

/// Longer than any scenario.
pub(crate) const FOREVER: Duration = Duration::from_secs(1 << 30);

/// Duration of simulated work.
const WORK: Duration = Duration::from_millis(1);

impl Host {
    /// The surroundings of a server on tokio.
    pub(crate) fn tokio() -> Self {
        Self { timer: Arc::new(TokioTimer::new()), threads: WorkThreads::Tokio, fault: None }
    }

    /// Surroundings of a simulated server.
    pub(crate) fn simulated(timer: impl Timer + Send + Sync + 'static, fault: Option<ServeFault>) -> Self {
        Self { timer: Arc::new(timer), threads: WorkThreads::None, fault }
    }

    /// Returns whether a fault is planted, which none is where there are sockets.
    pub(crate) fn has(&self, fault: ServeFault) -> bool {
        self.fault == Some(fault)
    }

    /// Does work beside the threads that talk to clients; nothing if it panics.
    pub(crate) async fn work<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        match self.threads {
            WorkThreads::Tokio => tokio::task::spawn_blocking(work).await.ok(),
            WorkThreads::None => {
                self.sleep(WORK).await;
                Some(work())
            }
        }
    }

    /// Returns the output of a future, or nothing if it takes longer.
    pub(crate) async fn within<F: Future>(&self, time: Duration, future: F) -> Option<F::Output> {
        tokio::select! {
            biased;
            output = future => Some(output),
            () = self.sleep(time) => None,
        }
    }
}

impl Timer for Host {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.timer.sleep(duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        self.timer.sleep_until(deadline)
    }

    fn now(&self) -> Instant {
        self.timer.now()
    }

    fn reset(&self, sleep: &mut Pin<Box<dyn Sleep>>, new_deadline: Instant) {
        self.timer.reset(sleep, new_deadline);
    }
}
