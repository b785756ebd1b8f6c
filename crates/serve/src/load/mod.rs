//! Clients that measure: a server by its URL, or an engine in this process.
//!
//! A *closed* loop keeps a number of requests in flight; an *open* loop sends them when a Poisson
//! process says, however many are open. The first shows how fast a server is, the second how long
//! users wait.
//!
//! ```
//! use warpfold_engine::scripted::Scripted;
//! use warpfold_engine::service::{Options, Service};
//! use warpfold_engine::{Config, Engine};
//! use warpfold_serve::load::{Load, Pace, Room, Summary, Target, Workload};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let engine = Engine::new(Scripted::new(100, 128), Config::default())?;
//!     let service = Service::spawn(engine, Options::default());
//!     let room = Room { alphabet: (5..90).collect(), max_len: 128 };
//!     let jobs = Workload::Random { input: 16, output: 8 }.draw(20, &room, 0);
//!     let load = Load::new(Target::Engine(service.client()), 1)?;
//!     let run = load.run(&jobs, Pace::Closed { concurrency: 4 });
//!     let summary = Summary::of(&run.timelines, run.wall, None);
//!     assert_eq!((summary.completed, summary.output_tokens), (20, 160));
//!     Ok(())
//! }
//! ```

mod check;
mod http;
mod random;
mod summary;
mod workload;

pub(crate) use http::Site;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::mpsc::unbounded_channel;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use warpfold_engine::Request;
use warpfold_engine::service::Client;

pub use check::{Check, Verdict};
pub use summary::{Goal, Quantiles, Summary, Timeline};
pub use workload::{Job, Room, Workload, of_file};

use crate::error::{Error, ErrorKind};
use random::Random;

/// What is measured.
#[derive(Debug)]
pub enum Target {
    /// A server with OpenAI's completions.
    Url {
        /// Such as `http://127.0.0.1:8000`.
        url: String,
        /// The key that it wants.
        key: Option<String>,
    },
    /// An engine in this process.
    Engine(Client),
}

/// When requests are sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// As soon as another one has ended.
    Closed {
        /// Requests in flight.
        concurrency: usize,
    },
    /// As a Poisson process says.
    Open {
        /// Requests per second, in the mean.
        rate: f64,
    },
}

/// What came of a run.
#[derive(Debug, Clone)]
pub struct Run {
    /// What each client saw, in the order of the jobs.
    pub timelines: Vec<Timeline>,
    /// From the first request to the end of the last one.
    pub wall: Duration,
}

/// A load generator.
#[derive(Debug)]
pub struct Load {
    runtime: Runtime,
    side: Arc<Side>,
    seed: u64,
}

/// The other side.
#[derive(Debug)]
enum Side {
    Site { site: http::Site, model: String, room: Room },
    Engine(Client),
}

impl Load {
    /// Finds the target. `seed` draws arrivals and the seeds of requests.
    ///
    /// # Errors
    /// If a server does not answer, or the system gives no threads.
    pub fn new(target: Target, seed: u64) -> Result<Self, Error> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("warpfold-load")
            .enable_all()
            .build()
            .map_err(ErrorKind::Start)?;
        let side = match target {
            Target::Engine(client) => Side::Engine(client),
            Target::Url { url, key } => {
                let site = http::Site::new(&url, key)?;
                let (model, room) = runtime.block_on(site.model())?;
                Side::Site { site, model, room }
            }
        };
        Ok(Self { runtime, side: Arc::new(side), seed })
    }

    /// What a server says that it takes; nothing of an engine, whose owner knows.
    #[must_use]
    pub fn room(&self) -> Option<&Room> {
        match self.side.as_ref() {
            Side::Site { room, .. } => Some(room),
            Side::Engine(_) => None,
        }
    }

    /// Sends all jobs and waits for all answers.
    #[must_use]
    pub fn run(&self, jobs: &[Job], pace: Pace) -> Run {
        let jobs: Arc<[Job]> = jobs.into();
        let start = Instant::now();
        let timelines = self.runtime.block_on(async {
            match pace {
                Pace::Closed { concurrency } => self.closed(&jobs, concurrency).await,
                Pace::Open { rate } => self.open(&jobs, rate, start).await,
            }
        });
        Run { timelines, wall: start.elapsed() }
    }

    /// Sends one request and waits for its answer.
    #[must_use]
    pub fn alone(&self, job: &Job, seed: u64) -> Timeline {
        self.runtime.block_on(self.side.answer(job, seed))
    }

    /// The seed that a request of a run is drawn by.
    const fn seed_of(&self, i: usize) -> u64 {
        self.seed.wrapping_add(i as u64)
    }

    async fn closed(&self, jobs: &Arc<[Job]>, concurrency: usize) -> Vec<Timeline> {
        let next = Arc::new(AtomicUsize::new(0));
        let mut clients = JoinSet::new();
        for _ in 0..concurrency.max(1) {
            let (side, jobs, next, seed) = (self.side.clone(), jobs.clone(), next.clone(), self.seed_of(0));
            clients.spawn(async move {
                let mut seen = Vec::new();
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(i) else { return seen };
                    seen.push((i, side.answer(job, seed.wrapping_add(i as u64)).await));
                }
            });
        }
        sorted(clients.join_all().await.into_iter().flatten().collect())
    }

    async fn open(&self, jobs: &Arc<[Job]>, rate: f64, start: Instant) -> Vec<Timeline> {
        let mut random = Random::new(self.seed);
        let mut at = 0.0;
        let mut clients = JoinSet::new();
        for i in 0..jobs.len() {
            sleep_until(start + Duration::from_secs_f64(at)).await;
            at += random.gap(1.0 / rate);
            let (side, jobs, seed) = (self.side.clone(), jobs.clone(), self.seed_of(i));
            clients.spawn(async move { (i, side.answer(&jobs[i], seed).await) });
        }
        sorted(clients.join_all().await)
    }
}

fn sorted(mut seen: Vec<(usize, Timeline)>) -> Vec<Timeline> {
    seen.sort_by_key(|(i, _)| *i);
    seen.into_iter().map(|(_, timeline)| timeline).collect()
}

impl Side {
    async fn answer(&self, job: &Job, seed: u64) -> Timeline {
        match self {
            Self::Site { site, model, .. } => site.complete(model, job, seed).await,
            Self::Engine(client) => from_engine(client, job, seed).await,
        }
    }
}

/// Asks an engine. Times are taken on its thread.
async fn from_engine(client: &Client, job: &Job, seed: u64) -> Timeline {
    let start = Instant::now();
    let mut timeline = Timeline { input: job.prompt.len(), ..Timeline::default() };
    let request = Request {
        max_tokens: Some(job.output),
        seed: Some(seed),
        ignore_eos: true,
        ..Request::new(job.prompt.clone())
    };
    let (sender, mut events) = unbounded_channel();
    client.submit_to(request, Box::new(move |event| sender.send((start.elapsed(), event)).is_ok()));
    let mut has_ended = false;
    while let Some((now, event)) = events.recv().await {
        match event {
            Ok(update) => {
                timeline.output += update.tokens.len();
                timeline.answer.extend(update.tokens.iter().flat_map(|sampled| sampled.token.to_le_bytes()));
                timeline.arrivals.push(now);
                timeline.end = now;
                has_ended |= update.finish.is_some();
            }
            Err(error) => timeline.error = Some(error.to_string()),
        }
    }
    if !has_ended {
        timeline.error.get_or_insert_with(|| "the engine has ended".to_owned());
    }
    timeline
}
