//! An engine and its clients under one seed: the core of a deterministic simulation.
//!
//! A [`Scenario`] draws settings, requests, clients that leave, adapters that come and go, copies
//! and steps that fail and devices that are lost. [`Scenario::run`] plays it, turn by turn, on a
//! [`Worker`] without thread and clock, and judges: every answer that ends has the bits of the same
//! request alone, every other one an error that says why, and nothing is held at the end. As in the
//! simulators of FoundationDB and TigerBeetle, a failure repeats by its seed. `crates/conformance`
//! plays whole servers on the same parts; `docs/notes/simulation.md` tells of both.

mod devices;
mod draws;
mod scenario;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use devices::{DeviceFaults, FaultyDevices, Identify};
pub use draws::SeedDraws;
pub use scenario::{ModelSizes, Scenario, settings};
use scenario::{PLACES, ScenarioEvent};

use crate::config::Config;
use crate::detokenize::Decode;
use crate::engine::Engine;
use crate::error::ErrorKind;
use crate::model::Model;
use crate::request::{Adapter, Output, Request};
use crate::scripted::Scripted;
use crate::service::{self, Client, Options, ServiceClock, Worker, WorkerTurn};

/// Counts of events in scenarios, so that none passes for want of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ScenarioSeen {
    /// Scenarios.
    pub scenarios: u64,
    /// Answers that were compared with those alone.
    pub answered: u64,
    /// Requests that were refused, with a reason.
    pub refused: u64,
    /// Requests that ended because the model failed.
    pub failed: u64,
    /// Requests whose clients left.
    pub left: u64,
    /// Groups that were preempted.
    pub preempted: u64,
    /// Tokens that were found in the cache.
    pub hits: u64,
    /// Blocks that were copied because they were shared.
    pub copied: u64,
    /// Answers by adapters.
    pub adapted: u64,
    /// Answers by other weights than the first.
    pub reweighted: u64,
}

impl std::ops::AddAssign for ScenarioSeen {
    fn add_assign(&mut self, other: Self) {
        self.scenarios += other.scenarios;
        self.answered += other.answered;
        self.refused += other.refused;
        self.failed += other.failed;
        self.left += other.left;
        self.preempted += other.preempted;
        self.hits += other.hits;
        self.copied += other.copied;
        self.adapted += other.adapted;
        self.reweighted += other.reweighted;
    }
}

/// A scenario that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScenarioFailure {
    /// Its seed, which repeats it.
    pub seed: u64,
    /// The message of its panic.
    pub message: String,
}

impl std::fmt::Display for ScenarioFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "seed {}: {}", self.seed, self.message)
    }
}

/// Runs scenarios until one panics.
///
/// # Errors
/// The one that did.
pub fn explore(
    seeds: impl Iterator<Item = u64>,
    run: impl Fn(u64) -> ScenarioSeen,
) -> Result<ScenarioSeen, ScenarioFailure> {
    let mut seen = ScenarioSeen::default();
    for seed in seeds {
        let one = catch_unwind(AssertUnwindSafe(|| run(seed)));
        seen += one.map_err(|panic| ScenarioFailure { seed, message: message_of(&*panic) })?;
    }
    Ok(seen)
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without a text").to_owned()
}

/// Runs the scenario of a seed on the scripted model.
///
/// # Panics
/// If an answer is wrong or missing, or something is held at the end.
#[must_use]
pub fn run_scripted(seed: u64) -> ScenarioSeen {
    const SIZES: ModelSizes = ModelSizes { vocab: 50, max_len: 96, adapters: 4, weights: 3 };
    let scenario = Scenario::draw(seed, SIZES);
    let model = Scripted::new(SIZES.vocab, SIZES.max_len);
    let of_rank = if scenario.overlaps { model.clone().overlapping() } else { model.clone() };
    scenario.run(vec![of_rank; scenario.ranks], &mut |request, weights| {
        let mut model = model.clone();
        model.load_weights(&weights).expect("they are a number");
        alone(model, request)
    })
}

/// The answers to one request that has an engine for itself.
///
/// # Panics
/// If the engine refuses it or fails.
pub fn alone<M: Model>(model: M, request: Request) -> Vec<Output> {
    let config = Config { block_size: 8, num_blocks: 64, check: true, ..Config::default() };
    let mut engine = Engine::new(model, config).expect("the settings are right").with_decode(Arc::new(LetterText));
    engine.add(request).expect("the request is right");
    engine.run_to_end().expect("the model runs").into_values().next().expect("there is an answer")
}

/// A text of letters: token `t` is `a + t % 26`, and token 0 is special.
struct LetterText;

impl Decode for LetterText {
    fn append(&self, token: u32, bytes: &mut Vec<u8>) {
        bytes.push(b'a' + (token % 26) as u8);
    }

    fn is_special(&self, token: u32) -> bool {
        token == 0
    }
}

/// The events that a client has heard of its request.
#[derive(Debug, Default)]
struct HeardEvents {
    /// Its ticket, the weights of its adapter, and how often the model was to get others before.
    sent: Option<(u64, Option<u32>, usize)>,
    outputs: Vec<Output>,
    /// The weights that its updates name.
    weights: Option<usize>,
    error: Option<crate::error::Error>,
    num_events: usize,
    /// It came after the service was told to end.
    is_late: bool,
    /// It has given up: nothing may come any more.
    has_left: bool,
    /// An event that came against the rules.
    wrong: Option<String>,
}

impl HeardEvents {
    /// Takes an event; returns whether more are wanted.
    fn hear(&mut self, event: service::Event, patience: Option<usize>) -> bool {
        if self.has_left && matches!(&event, Err(error) if !matches!(error.kind(), ErrorKind::Model { .. })) {
            // It was given up before it was refused.
            return false;
        }
        if self.has_left || self.error.is_some() {
            self.wrong = Some(format!("{event:?} comes after the end"));
            return false;
        }
        self.num_events += 1;
        self.has_left = patience.is_some_and(|most| self.num_events >= most);
        match event {
            Ok(update) => {
                if self.weights.replace(update.weights).is_some_and(|before| before != update.weights) {
                    self.wrong = Some(format!("{update:?} is of other weights than those before"));
                }
                self.outputs.resize(self.outputs.len().max(update.output + 1), Output::default());
                self.outputs[update.output].extend(update);
            }
            Err(error) => self.error = Some(error),
        }
        !self.has_left
    }

    fn is_finished(&self, request: &Request) -> bool {
        self.outputs.len() == request.n && self.outputs.iter().all(|output| output.finish.is_some())
    }
}

type Ear = Arc<Mutex<HeardEvents>>;

fn heard(ear: &Ear) -> MutexGuard<'_, HeardEvents> {
    ear.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The answers to a request alone, by the weights of a number; 0 is those of the start.
pub type AloneAnswers<'a> = dyn FnMut(Request, u32) -> Vec<Output> + 'a;

/// A scenario that is played.
struct EnginePlay<M> {
    client: Client,
    worker: Worker<FaultyDevices<M>>,
    ears: Vec<Ear>,
    /// The adapters that requests may name, and their weights.
    places: [Option<(Arc<Adapter>, u32)>; PLACES],
    loads: BTreeMap<u64, Arc<AtomicU64>>,
    /// Weights that the model was to get, and whether it has.
    swaps: Vec<(u32, Arc<AtomicBool>)>,
    has_slept: Arc<AtomicBool>,
    has_drained: bool,
}

/// Turns of a scenario at most.
const TURN_BOUND: usize = 20_000;

impl Scenario {
    /// Plays it on devices, and compares with answers alone.
    ///
    /// # Panics
    /// If an answer is wrong or missing, or something is held at the end.
    pub fn run<M: Model>(&self, ranks: Vec<M>, alone: &mut AloneAnswers<'_>) -> ScenarioSeen {
        let identify: Identify = |weights| *weights.downcast_ref().expect("the weights are a number");
        let devices = FaultyDevices::new(ranks, self.faults.clone(), identify);
        let engine = Engine::new(devices, self.config.clone()).expect("the settings are right");
        let now = Arc::new(AtomicU64::new(0));
        let time = now.clone();
        let clock = ServiceClock::new(move || Duration::from_millis(time.load(Ordering::Relaxed)));
        let options = Options { max_waiting: self.max_waiting };
        let (client, worker) = Worker::new(engine.with_decode(Arc::new(LetterText)), options, clock);
        let ears = self.arrivals.iter().map(|_| Ear::default()).collect();
        let places = std::array::from_fn(|_| None);
        let mut play = EnginePlay {
            client,
            worker,
            ears,
            places,
            loads: BTreeMap::new(),
            swaps: Vec::new(),
            has_slept: Arc::default(),
            has_drained: false,
        };
        let mut draws = SeedDraws::new(!self.seed);
        let mut events = self.events.iter().peekable();
        for turn in 0.. {
            assert!(turn < TURN_BOUND, "the engine makes no progress: {:?}", play.worker.engine().metrics());
            while let Some((_, event)) = events.next_if(|(at, _)| *at <= turn) {
                play.happen(self, *event);
            }
            now.fetch_add(draws.below(3) as u64, Ordering::Relaxed);
            let is_over = matches!(play.worker.turn(), WorkerTurn::Idle | WorkerTurn::Over);
            if is_over && events.peek().is_none() {
                break;
            }
        }
        self.judge(play, alone)
    }

    /// The request that a client sends, whose adapter is what it is alone.
    fn request_alone(&self, i: usize, weights: Option<u32>) -> Request {
        let adapter = weights.map(|slot| Arc::new(Adapter { slot, id: slot.into() }));
        Request { adapter, ..self.arrivals[i].request.clone() }
    }

    fn judge<M: Model>(&self, mut play: EnginePlay<M>, alone: &mut AloneAnswers<'_>) -> ScenarioSeen {
        let mut seen = ScenarioSeen { scenarios: 1, ..ScenarioSeen::default() };
        for (i, ear) in play.ears.iter().enumerate() {
            let heard = heard(ear);
            if let Some(wrong) = &heard.wrong {
                panic!("request {i}: {wrong}");
            }
            let Some((_, weights, swaps)) = heard.sent else { continue };
            let request = self.request_alone(i, weights);
            if let Some(error) = &heard.error {
                match error.kind() {
                    ErrorKind::Model { .. } => seen.failed += 1,
                    _ => seen.refused += 1,
                }
                self.judge_error(&play, &request, error);
            } else if heard.is_finished(&request) {
                assert!(!heard.is_late, "request {i} is answered by a service that drains");
                seen.answered += 1;
                seen.adapted += u64::from(weights.is_some());
                // Commands come in the order in which they were sent.
                let had: Vec<u32> = play.swaps[..swaps]
                    .iter()
                    .filter(|(_, has)| has.load(Ordering::Relaxed))
                    .map(|(number, _)| *number)
                    .collect();
                assert_eq!(heard.weights, Some(had.len()), "the weights of request {i}");
                seen.reweighted += u64::from(!had.is_empty());
                let number = had.last().copied().unwrap_or_default();
                assert_eq!(heard.outputs, alone(request, number), "request {i} among others, and alone");
            } else {
                assert!(heard.has_left, "request {i} has neither an answer nor an error: {:?}", heard.outputs);
                seen.left += 1;
            }
        }
        assert_eq!(play.worker.num_open(), 0, "requests that the service has not forgotten");
        let engine = play.worker.engine_mut();
        engine.check_invariants();
        engine.clear_prefix_cache();
        let metrics = engine.metrics();
        let now = &metrics.now;
        let held = [now.used_blocks, now.used_host_blocks, now.cached_blocks, now.running, now.waiting, now.swapped];
        assert_eq!(held, [0; 6], "something is left");
        let named: Vec<usize> = play.places.iter().flatten().map(|(adapter, _)| Arc::strong_count(adapter)).collect();
        assert!(named.iter().all(|holders| *holders == 1), "an adapter is held by nobody's request: {named:?}");
        seen.preempted = metrics.preempted_by_recompute + metrics.preempted_by_swap;
        (seen.hits, seen.copied) = (metrics.prefix_hits, metrics.copied_blocks);
        seen
    }

    /// Holds an error against what has happened.
    fn judge_error<M: Model>(&self, play: &EnginePlay<M>, request: &Request, error: &crate::error::Error) {
        let text = error.to_string();
        match error.kind() {
            ErrorKind::Model { .. } => {
                assert!(play.worker.engine().model().failures() > 0, "nothing has failed: {text}");
                assert!(text.contains("device"), "it does not say what has failed: {text}");
            }
            ErrorKind::Overloaded { waiting, limit } => {
                assert!(waiting >= limit && *limit == self.max_waiting, "{text}")
            }
            ErrorKind::Asleep => assert!(play.has_slept.load(Ordering::Relaxed), "the model has not slept"),
            ErrorKind::Stopped => assert!(play.has_drained, "nobody has stopped the service: {text}"),
            _ => {
                let limits = play.worker.engine().model().limits();
                let model = Scripted::new(limits.vocab, limits.max_len);
                let probe = Engine::new(model, self.config.clone()).expect("the settings are right");
                let refused = probe.with_decode(Arc::new(LetterText)).add(request.clone());
                // What stands in brackets are bytes, which are the model's.
                let said = |text: &str| {
                    text.split('(').map(|part| part.split_once(')').map_or(part, |(_, rest)| rest)).collect::<String>()
                };
                let refused = refused.err().map(|e| said(&e.to_string()));
                assert_eq!(refused, Some(said(&text)), "why it is refused alone");
            }
        }
    }
}

impl<M: Model> EnginePlay<M> {
    fn happen(&mut self, scenario: &Scenario, event: ScenarioEvent) {
        match event {
            ScenarioEvent::Add(i) => self.add(scenario, i),
            ScenarioEvent::Abort(i) => {
                let mut heard = heard(&self.ears[i]);
                let Some((ticket, ..)) = heard.sent else { return };
                // Commands come before steps, so that nothing may be heard from here on.
                heard.has_left |= heard.error.is_none() && !heard.is_finished(&scenario.arrivals[i].request);
                self.client.abort(ticket);
            }
            ScenarioEvent::Clear => self.worker.engine_mut().clear_prefix_cache(),
            ScenarioEvent::Load { place, weights } => self.load(place, weights),
            ScenarioEvent::Weights(number) => {
                let has = Arc::new(AtomicBool::new(false));
                self.swaps.push((number, has.clone()));
                let answer = move |loaded: Result<(), _>| has.store(loaded.is_ok(), Ordering::Relaxed);
                self.client.load_weights_to(Box::new(number), answer);
            }
            ScenarioEvent::Sleep => {
                let has = self.has_slept.clone();
                self.client
                    .sleep_to(move |slept| has.store(slept.is_ok() || has.load(Ordering::Relaxed), Ordering::Relaxed));
            }
            ScenarioEvent::Wake => self.client.wake_to(drop),
            ScenarioEvent::Drain => {
                self.has_drained = true;
                self.worker.drain();
            }
        }
    }

    fn add(&mut self, scenario: &Scenario, i: usize) {
        let arrival = &scenario.arrivals[i];
        let adapter = arrival.place.and_then(|place| self.places[place].clone());
        let weights = adapter.as_ref().map(|(_, weights)| *weights);
        let request = Request { adapter: adapter.map(|(adapter, _)| adapter), ..arrival.request.clone() };
        let (ear, patience) = (self.ears[i].clone(), arrival.patience);
        let ticket = self.client.submit_to(request, Box::new(move |event| heard(&ear).hear(event, patience)));
        let mut heard = heard(&self.ears[i]);
        (heard.sent, heard.is_late) = (Some((ticket, weights, self.swaps.len())), self.has_drained);
    }

    /// Takes the place of an adapter that no request names, unless one does.
    fn load(&mut self, place: usize, weights: u32) {
        if self.places[place].as_ref().is_some_and(|(adapter, _)| Arc::strong_count(adapter) > 1) {
            return;
        }
        let id = self.loads.len() as u64 + 1;
        let adapter = Arc::new(Adapter { slot: place as u32, id });
        let is_loaded = Arc::new(AtomicU64::new(0));
        self.loads.insert(id, is_loaded.clone());
        let answer = move |loaded: Result<(), _>| is_loaded.store(u64::from(loaded.is_ok()), Ordering::Relaxed);
        self.client.load_adapter_to(adapter.clone(), Box::new(weights), answer);
        // Its command is obeyed at once, as nobody else's is.
        while self.worker.turn() == WorkerTurn::Worked && Arc::strong_count(&adapter) > 1 {}
        let is_there = self.loads[&id].load(Ordering::Relaxed) == 1;
        self.places[place] = is_there.then_some((adapter, weights));
    }
}
