//! The ladder `serving`: one job of mixed lengths, served by one idea after the other.
//!
//! Each rung is a [`Config`] that differs from the one before in one idea. [`climb`] runs the job
//! under each, compares the answers (they are the same, or it is an error of the model), and
//! counts: steps, rows, tokens a step, steps to the first token, and where the slots of the cache
//! went. Time is the caller's to measure.

use std::collections::BTreeMap;

use crate::batch::{Batch, Moves};
use crate::config::{Allocator, Config, Policy};
use crate::engine::Engine;
use crate::error::{Error, ErrorKind, ModelError};
use crate::model::{CacheShape, Limits, Model};
use crate::request::{Request, RequestId};
use crate::sampling::{Sampled, Sampling, philox};
use crate::trace::StepTrace;

/// One idea.
#[derive(Debug, Clone)]
pub struct Rung {
    /// As the program names it.
    pub name: &'static str,
    /// What it changes, in a sentence.
    pub change: &'static str,
    /// The engine that has it.
    pub config: Config,
}

/// The rungs from decoding without a cache to the shipped engine, with the sizes of `base`.
#[must_use]
pub fn rungs(base: &Config) -> Vec<Rung> {
    let with = |policy, allocator| Config { policy, allocator, trace: true, ..base.clone() };
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

/// Requests of mixed lengths for a model of these limits: prompts of 1/32 to 1/2 of the longest
/// sequence, a third of them with a common beginning; answers mostly short and now and then long,
/// as chats are. A third of the requests says how long its answer may become, the others do not.
#[must_use]
pub fn mixed_job(limits: &Limits, num: u32, seed: u64) -> Vec<Request> {
    let of_longest = |part: f64| ((limits.max_len as f64 * part) as usize).max(1);
    let request = |i: u32| {
        let words = philox(seed, [i, 0, 0, 3]).map(|w| f64::from(w) / 2_f64.powi(32));
        let prompt_len = of_longest(2_f64.powf(-1.0 - 4.0 * words[0]));
        let answer_len = of_longest(2_f64.powf(-1.0 - 6.0 * words[1])).max(2);
        let shared = if words[2] < 1.0 / 3.0 { prompt_len * 3 / 4 } else { 0 };
        let last = u32::try_from(limits.vocab - 1).expect("a token has 32 bits");
        let token = |p: usize| {
            let source = if p < shared { 0 } else { i + 1 };
            philox(seed, [source, u32::try_from(p).expect("a prompt is shorter"), 0, 4])[0] % last + 1
        };
        let room = limits.max_len - prompt_len;
        let asked = (2 * answer_len).min(room);
        Request {
            sampling: Sampling::greedy(),
            // The end of the answer, which only the model is told.
            seed: Some((prompt_len + answer_len.min(room)) as u64),
            max_tokens: i.is_multiple_of(3).then_some(asked),
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
/// models, serve the same.
#[derive(Debug)]
struct Ending<M> {
    inner: M,
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
        let mut answers = self.inner.step(batch)?;
        for (answer, row) in answers.iter_mut().zip(&batch.samples) {
            let is_last = u64::from(row.position) + 1 >= row.seed;
            answer.token = if is_last { END } else { answer.token.max(END + 1) };
        }
        Ok(answers)
    }
}

/// What a rung took for the job.
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
    /// Groups that were preempted.
    pub preemptions: u64,
    /// Tokens of prompts that were found in the cache.
    pub prefix_hits: u64,
    /// Where the slots were, as shares of all, over all steps.
    pub slots: SlotUse,
}

/// Where the slots of the cache are. All shares sum to 1.
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
    let mut expected = None;
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

/// The tokens of each request.
pub(crate) type Answers = BTreeMap<RequestId, Vec<u32>>;

/// Serves a job with the settings of a rung.
pub(crate) fn run<M: Model>(model: M, job: &[Request], rung: &Rung) -> Result<(Outcome, Answers), Error> {
    let mut engine = Engine::new(Ending { inner: model }, rung.config.clone())?;
    for request in job {
        engine.add(request.clone())?;
    }
    let (mut answers, mut first, mut traces) = (Answers::new(), BTreeMap::new(), Vec::new());
    while !engine.is_idle() {
        for update in engine.step()? {
            first.entry(update.request).or_insert(traces.len() as u64 + 1);
            answers.entry(update.request).or_default().extend(update.tokens.iter().map(|t| t.token));
        }
        traces.extend(engine.trace().cloned());
    }
    let metrics = engine.metrics();
    let steps = metrics.steps;
    let tokens = answers.values().map(|a| a.len() as u64).sum();
    let outcome = Outcome {
        name: rung.name,
        block_size: rung.config.block_size,
        steps,
        tokens,
        rows: metrics.rows,
        padding_rows: metrics.padding_rows,
        most_rows: traces.iter().map(|t| t.padding + t.rows.iter().map(|r| r.2).sum::<usize>()).max().unwrap_or(0),
        tokens_per_step: tokens as f64 / steps as f64,
        steps_to_first_token: (
            first.values().sum::<u64>() as f64 / first.len().max(1) as f64,
            first.values().copied().max().unwrap_or(0),
        ),
        preemptions: metrics.preempted_by_recompute + metrics.preempted_by_swap,
        prefix_hits: metrics.prefix_hits,
        slots: slot_use(&traces, rung.config.block_size, rung.config.num_blocks),
    };
    Ok((outcome, answers))
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
