//! The ladder `serving`: one job, of mixed lengths or of equal ones, served by one idea after the
//! other.
//!
//! Each rung is a [`Config`] that differs from the one before in one idea. [`climb`] runs the job
//! under each, compares the answers (they are the same, or it is an error of the model), and
//! counts: steps, rows, tokens a step, steps to the first token, and where the slots of the cache
//! went. It traces every step, which takes turns with the model. [`Server`] runs a rung as it is
//! run in earnest, steps overlapped; the caller has the clock.

use std::collections::{BTreeMap, VecDeque};

use crate::batch::{Batch, Moves};
use crate::config::{Allocator, Config, Policy};
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, ModelError};
use crate::model::{CacheShape, Limits, Model, Ticket};
use crate::request::{Request, Update};
use crate::sampling::{Sampled, Sampling, philox};
use crate::trace::StepTrace;

/// One idea.
#[derive(Debug, Clone)]
pub struct Rung {
    /// Name on the command line.
    pub name: &'static str,
    /// The change, in a sentence.
    pub change: &'static str,
    /// The engine that has it.
    pub config: Config,
}

/// The rungs from decoding without a cache to the shipped engine, with the sizes of `base`.
#[must_use]
pub fn rungs(base: &Config) -> Vec<Rung> {
    let with = |policy, allocator| Config { policy, allocator, ..base.clone() };
    let cut = |allocator| Config { budget: base.budget.div_ceil(4), ..with(Policy::Continuous, allocator) };
    let rung = |name, change, config| Rung { name, change, config };
    let alone = |allocator| Config { max_seqs: 1, ..with(Policy::Static, allocator) };
    vec![
        rung(
            "no-kv-cache",
            "one request at a time, and every step computes all positions again",
            Config { kv_cache: false, ..alone(Allocator::Naive) },
        ),
        rung(
            "contiguous",
            "keys and values are kept, in slots reserved for the longest that the answer may become",
            alone(Allocator::Contiguous),
        ),
        rung(
            "static",
            "as many requests as fit run together, padded, until the last one ends",
            with(Policy::Static, Allocator::Contiguous),
        ),
        rung("orca", "each step takes who is there", with(Policy::Orca, Allocator::Contiguous)),
        rung("paged", "blocks are given when they are needed", with(Policy::Orca, Allocator::Naive)),
        rung("vllm-v0", "prefills and decodes run apart", with(Policy::VllmV0, Allocator::Naive)),
        rung("continuous", "prompts are cut where a quarter of the budget ends", cut(Allocator::Naive)),
        rung("prefix-cache", "a known prefix is not computed again", cut(Allocator::PrefixCaching)),
    ]
}

/// The lengths of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lengths {
    /// Those of conversations.
    Mixed,
    /// A prompt of a thirty-second and an answer of an eighth of the longest sequence, for all.
    Equal,
}

/// Requests of mixed lengths for a model of these limits: [`job`].
#[must_use]
pub fn mixed_job(limits: &Limits, num: u32, seed: u64) -> Vec<Request> {
    job(limits, Lengths::Mixed, num, seed)
}

/// Requests for a model of these limits.
///
/// Mixed lengths have a long tail (log-normal, with a deviation of 1), as those of conversations
/// have: prompts of a tenth of the longest sequence in the mean, half of it at most, and answers
/// twice as long, as those of ShareGPT are. A third of the prompts has a common beginning, and a
/// third of the requests says how long its answer may become. Of equal lengths all requests say
/// it, and share no beginning.
#[must_use]
pub fn job(limits: &Limits, lengths: Lengths, num: u32, seed: u64) -> Vec<Request> {
    let of_longest = |mean: f64, normal: f64| (limits.max_len as f64 * mean * (normal - 0.5).exp()) as usize;
    let request = |i: u32| {
        let words = philox(seed, [i, 0, 0, 3]).map(|w| (f64::from(w) + 0.5) / 2_f64.powi(32));
        // Two normal numbers of two uniform ones, by Box and Muller.
        let (radius, (sin, cos)) = ((-2.0 * words[0].ln()).sqrt(), (std::f64::consts::TAU * words[1]).sin_cos());
        let prompt_len = of_longest(0.1, radius * cos).clamp(1, limits.max_len / 2);
        let answer_len = of_longest(0.2, radius * sin).clamp(2, limits.max_len - prompt_len);
        let shared = if words[2] < 1.0 / 3.0 { prompt_len * 3 / 4 } else { 0 };
        let (prompt_len, answer_len, shared) = match lengths {
            Lengths::Mixed => (prompt_len, answer_len, shared),
            Lengths::Equal => (limits.max_len.div_ceil(32), limits.max_len.div_ceil(8), 0),
        };
        let last = u32::try_from(limits.vocab - 1).expect("a token has 32 bits");
        let token = |p: usize| {
            let source = if p < shared { 0 } else { i + 1 };
            philox(seed, [source, u32::try_from(p).expect("a prompt is shorter"), 0, 4])[0] % last + 1
        };
        let asked = match lengths {
            Lengths::Mixed => i.is_multiple_of(3).then_some((2 * answer_len).min(limits.max_len - prompt_len)),
            Lengths::Equal => Some(answer_len),
        };
        Request {
            // The token that ends answers is drawn by no model of its own accord.
            sampling: Sampling { logit_bias: vec![(END, -100.0)], ..Sampling::greedy() },
            // The end of the answer, which only the model is told.
            seed: Some((prompt_len + answer_len) as u64),
            max_tokens: asked,
            ignore_eos: true,
            stop_ids: vec![END],
            ..Request::new((0..prompt_len).map(token).collect())
        }
    };
    (0..num).map(request).collect()
}

/// The token at which the answers of a job end.
const END: u32 = 0;

/// A model whose answers end where the job says and nowhere else, so that all rungs, and all
/// models, serve the same. Nobody knows of an end before its step has run.
#[derive(Debug)]
struct Ending<M> {
    inner: M,
    /// Samples of the steps in flight that end their answers.
    ends: VecDeque<Vec<bool>>,
}

impl<M> Ending<M> {
    fn new(inner: M) -> Self {
        Self { inner, ends: VecDeque::new() }
    }
}

impl<M: Model> Model for Ending<M> {
    fn limits(&self) -> Limits {
        self.inner.limits()
    }

    fn allocate(&mut self, cache: CacheShape) -> Result<(), ModelError> {
        self.inner.allocate(cache)
    }

    fn copy(&mut self, moves: &Moves) -> Result<(), ModelError> {
        self.inner.copy(moves)
    }

    fn step(&mut self, batch: &Batch) -> Result<Vec<Sampled>, ModelError> {
        let ticket = self.submit(batch)?;
        self.wait(ticket)
    }

    fn overlaps(&self) -> bool {
        self.inner.overlaps()
    }

    fn submit(&mut self, batch: &Batch) -> Result<Ticket, ModelError> {
        let ticket = self.inner.submit(batch)?;
        self.ends.push_back(batch.samples.iter().map(|row| u64::from(row.position) + 1 >= row.seed).collect());
        Ok(ticket)
    }

    fn wait(&mut self, ticket: Ticket) -> Result<Vec<Sampled>, ModelError> {
        let ends = self.ends.pop_front().unwrap_or_default();
        let mut answers = self.inner.wait(ticket)?;
        answers.iter_mut().zip(ends).filter(|(_, is_last)| *is_last).for_each(|(answer, _)| answer.token = END);
        Ok(answers)
    }
}

/// Result of a rung on the job.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The rung's name.
    pub name: &'static str,
    /// Positions in a block.
    pub block_size: usize,
    /// Steps until the last answer had ended.
    pub steps: u64,
    /// Tokens of all answers.
    pub tokens: u64,
    /// Rows of sequences that were run.
    pub rows: u64,
    /// Rows of padding that were run.
    pub padding_rows: u64,
    /// Rows of the largest step, which all sequences of that step wait for.
    pub most_rows: usize,
    /// Tokens of answers for each step.
    pub tokens_per_step: f64,
    /// Steps from the beginning to a request's first token: the mean, and the largest.
    pub steps_to_first_token: (f64, u64),
    /// Rows that were computed from one token of an answer to its next, the most: how long a reader
    /// waits, on a device that takes each row equally long. An answer that was preempted in between
    /// waits for its blocks, not for others' prompts, and is not counted.
    pub longest_wait_rows: u64,
    /// Groups that were preempted.
    pub preemptions: u64,
    /// Tokens of prompts that were found in the cache.
    pub prefix_hits: u64,
    /// Use of the slots, as shares of all, over all steps.
    pub slots: SlotUse,
}

/// Use of the cache's slots. All shares sum to 1.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SlotUse {
    /// They hold keys and values.
    pub filled: f64,
    /// They are held for tokens that are still to come.
    pub reserved: f64,
    /// They are held, and will never be used.
    pub internal: f64,
    /// They are free, but the next request cannot have them, as they do not lie side by side.
    pub external: f64,
    /// They are free.
    pub free: f64,
}

/// Runs a job on every rung, each with a model of its own.
///
/// # Errors
/// If settings or requests do not fit the model, if it fails, or if a rung changes an answer.
pub fn climb<M: Model>(model: impl FnMut() -> M, job: &[Request], rungs: &[Rung]) -> Result<Vec<Outcome>, Error> {
    let mut model = model;
    let mut expected: Option<Answers> = None;
    let mut outcomes = Vec::new();
    for rung in rungs {
        let (outcome, answers) = run(model(), job, rung)?;
        if expected.get_or_insert_with(|| answers.clone()) != &answers {
            let source = format!("rung {} has other answers than rung {}", rung.name, rungs[0].name).into();
            return Err(ErrorKind::Model { step: outcome.steps, failed: Vec::new(), source }.into());
        }
        outcomes.push(outcome);
    }
    Ok(outcomes)
}

/// Runs a job with a rung and returns the trace of each step.
///
/// # Errors
/// Those of [`climb`].
pub fn steps<M: Model>(model: M, job: &[Request], rung: &Rung) -> Result<Vec<StepTrace>, Error> {
    let mut engine = Engine::new(Ending::new(model), Config { trace: true, ..rung.config.clone() })?;
    let mut traces = Vec::new();
    serve(&mut engine, job, |engine, _| traces.extend(engine.trace().cloned()))?;
    Ok(traces)
}

/// The same rung with blocks of 1 to 128 positions, and as many slots.
#[must_use]
pub fn block_sizes(rung: &Rung) -> Vec<Rung> {
    let slots = rung.config.num_blocks * rung.config.block_size;
    let sized = |block_size: usize| {
        let config = Config { block_size, num_blocks: slots / block_size, ..rung.config.clone() };
        Rung { config, ..rung.clone() }
    };
    (0..8).map(|i| sized(1 << i)).collect()
}

/// Tokens of the answers to a job, in the order of its requests.
pub(crate) type Answers = Vec<Vec<u32>>;

/// A rung's engine, which serves jobs one after the other as it is run in earnest: steps overlap
/// where the model can, and nothing is traced. What is planned and captured once stays, so that a
/// job is best timed when it comes again.
///
/// ```
/// use warpfold_engine::ladder::{Server, mixed_job, rungs};
/// use warpfold_engine::scripted::Scripted;
/// use warpfold_engine::{Config, Model};
///
/// let model = || Scripted::new(64, 256).overlapping();
/// let job = mixed_job(&model().limits(), 8, 1);
/// let all = rungs(&Config { num_blocks: 64, budget: 256, ..Config::default() });
/// let mut last = Server::new(model(), &all[all.len() - 1])?;
/// assert_eq!(last.serve(&job)?, Server::new(model(), &all[1])?.serve(&job)?);
/// # Ok::<(), warpfold_engine::Error>(())
/// ```
#[derive(Debug)]
pub struct Server<M> {
    engine: Engine<Ending<M>>,
}

impl<M: Model> Server<M> {
    /// The engine of a rung, with a cache of its own.
    ///
    /// # Errors
    /// Those of [`Engine::new`].
    pub fn new(model: M, rung: &Rung) -> Result<Self, Error> {
        Ok(Self { engine: Engine::new(Ending::new(model), rung.config.clone())? })
    }

    /// Serves a job, of which the cache knows no prefix, and returns the tokens of its answers.
    ///
    /// # Errors
    /// If a request does not fit the model, or it fails.
    pub fn serve(&mut self, job: &[Request]) -> Result<Answers, Error> {
        self.engine.clear_prefix_cache();
        serve(&mut self.engine, job, |_, _| ())
    }
}

/// Steps until all answers have ended, and tells `observe` what each step gave.
fn serve<M: Model>(
    engine: &mut Engine<M>,
    job: &[Request],
    mut observe: impl FnMut(&Engine<M>, &[Update]),
) -> Result<Answers, Error> {
    let mut answers = BTreeMap::new();
    for request in job {
        answers.insert(engine.add(request.clone())?, Vec::new());
    }
    while !engine.is_idle() {
        let updates = engine.step()?;
        for update in &updates {
            answers.entry(update.request).or_default().extend(update.tokens.iter().map(|t| t.token));
        }
        observe(engine, &updates);
    }
    Ok(answers.into_values().collect())
}

pub(crate) fn run<M: Model>(model: M, job: &[Request], rung: &Rung) -> Result<(Outcome, Answers), Error> {
    let mut engine = Engine::new(Ending::new(model), Config { trace: true, ..rung.config.clone() })?;
    let (mut first, mut traces) = (BTreeMap::new(), Vec::new());
    let (mut done_rows, mut latest, mut longest_wait_rows) = (0, BTreeMap::new(), 0);
    let answers = serve(&mut engine, job, |engine, updates| {
        done_rows += engine.trace().map_or(0, num_rows) as u64;
        for (request, _) in engine.trace().into_iter().flat_map(|trace| &trace.preempted) {
            latest.remove(request);
        }
        for update in updates {
            first.entry(update.request).or_insert(traces.len() as u64 + 1);
            if let Some(before) = latest.insert(update.request, done_rows) {
                longest_wait_rows = longest_wait_rows.max(done_rows - before);
            }
        }
        traces.extend(engine.trace().cloned());
    })?;
    let metrics = engine.metrics();
    let steps = metrics.steps;
    let tokens = answers.iter().map(|a| a.len() as u64).sum();
    let outcome = Outcome {
        name: rung.name,
        block_size: rung.config.block_size,
        steps,
        tokens,
        rows: metrics.rows,
        padding_rows: metrics.padding_rows,
        most_rows: traces.iter().map(num_rows).max().unwrap_or(0),
        tokens_per_step: tokens as f64 / steps as f64,
        steps_to_first_token: (
            first.values().sum::<u64>() as f64 / first.len().max(1) as f64,
            first.values().copied().max().unwrap_or(0),
        ),
        longest_wait_rows,
        preemptions: metrics.preempted_by_recompute + metrics.preempted_by_swap,
        prefix_hits: metrics.prefix_hits,
        slots: slot_use(&traces, rung.config.block_size, rung.config.num_blocks),
    };
    Ok((outcome, answers))
}

/// The rows that a step computed.
fn num_rows(trace: &StepTrace) -> usize {
    trace.padding + trace.rows.iter().map(|(_, _, num)| num).sum::<usize>()
}

/// Sums over all steps where the slots were; what a sequence becomes is known by then.
fn slot_use(traces: &[StepTrace], block_size: usize, num_blocks: usize) -> SlotUse {
    let mut last = BTreeMap::new();
    for sequence in traces.iter().flat_map(|t| &t.running) {
        let len = last.entry(sequence.id).or_insert(0);
        *len = sequence.computed.max(*len);
    }
    let mut total = SlotUse::default();
    for trace in traces {
        for sequence in &trace.running {
            for (i, (_, refs)) in sequence.table.iter().enumerate() {
                let within = |len: usize| len.saturating_sub(i * block_size).min(block_size) as f64;
                let (now, then, share) =
                    (within(sequence.computed), within(last[&sequence.id]), 1.0 / f64::from(*refs));
                total.filled += share * now;
                total.reserved += share * (then - now);
                total.internal += share * (block_size as f64 - then);
            }
        }
        let external = trace.external_slots.min(trace.num_free * block_size) as f64;
        total.external += external;
        total.free += (trace.num_free * block_size) as f64 - external;
    }
    let all = (traces.len() * num_blocks * block_size) as f64;
    let share = |slots: f64| slots / all;
    SlotUse {
        filled: share(total.filled),
        reserved: share(total.reserved),
        internal: share(total.internal),
        external: share(total.external),
        free: share(total.free),
    }
}
