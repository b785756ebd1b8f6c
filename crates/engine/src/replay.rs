//! Replay of a request log under other settings, in virtual time.
//!
//! The scheduler is the engine's own. The model computes nothing: each answer has the length that
//! the log says. A step takes the time of a [`StepCost`], and requests arrive at the times of the
//! log, so that a replay is reproducible to the last digit.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::batch::{Batch, Moves};
use crate::config::Config;
use crate::engine::Engine;
use crate::error::{Error, ModelError};
use crate::model::{CacheShape, Limits, Model};
use crate::request::{Request, RequestId};
use crate::sampling::{Sampled, Sampling};
use crate::trace::StepTrace;

/// A request of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// Arrival time since a common origin.
    pub at: Duration,
    /// Tokens of its prompt.
    pub prompt: usize,
    /// Tokens of its answer.
    pub answer: usize,
    /// Limit of the answer, which a contiguous allocator reserves.
    pub max_tokens: Option<usize>,
}

/// Time model of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepCost {
    /// Fixed time of a step, in which the weights are read.
    pub step: Duration,
    /// Time per row, padding included.
    pub row: Duration,
}

/// Result of a replay: latencies, throughput and use of the cache.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplayResult {
    /// Steps, and rows of sequences and of padding.
    pub steps: u64,
    /// Rows of sequences, those that a preemption computes again included.
    pub rows: u64,
    /// Rows of padding.
    pub padding_rows: u64,
    /// Tokens of all answers.
    pub tokens: u64,
    /// From the first arrival to the end of the last answer.
    pub wall: Duration,
    /// From each arrival to its first token, shortest first.
    pub first_token: Vec<Duration>,
    /// The longest wait from one token of an answer to its next, preemptions included.
    pub longest_wait: Duration,
    /// Groups that were preempted.
    pub preemptions: u64,
    /// Slots that are held and empty, as a share of all, over the time of all steps.
    pub unfilled: f64,
    /// Slots that are free but not side by side, likewise.
    pub external: f64,
    /// The end of each of the first steps, and what it did.
    pub traces: Vec<(Duration, StepTrace)>,
}

/// The token at which answers end, and any other.
const END: u32 = 0;
const OTHER: u32 = 1;

/// A model that draws nothing: the seed of a request is where its answer ends.
#[derive(Debug)]
struct LogModel {
    max_len: usize,
}

impl Model for LogModel {
    fn limits(&self) -> Limits {
        Limits { vocab: 2, max_len: self.max_len, eos: vec![END], hidden: 0, kv_bytes_per_token: 1, state_bytes: 0 }
    }

    fn allocate(&mut self, _: CacheShape) -> Result<(), ModelError> {
        Ok(())
    }

    fn copy(&mut self, _: &Moves) -> Result<(), ModelError> {
        Ok(())
    }

    fn step(&mut self, batch: &Batch) -> Result<Vec<Sampled>, ModelError> {
        let is_last = |position: u32, seed: u64| u64::from(position) + 1 >= seed;
        let token = |position, seed| if is_last(position, seed) { END } else { OTHER };
        let sampled = |row: &crate::SampleRow| Sampled { token: token(row.position, row.seed), ..Sampled::default() };
        Ok(batch.samples.iter().map(sampled).collect())
    }
}

/// Plays a log and keeps what the first `num_traces` steps did.
///
/// Requests arrive between steps, in the order of their times.
///
/// ```
/// use std::time::Duration;
/// use warpfold_engine::replay::{Arrival, StepCost, replay};
/// use warpfold_engine::Config;
///
/// let arrival = |ms, prompt| Arrival { at: Duration::from_millis(ms), prompt, answer: 3, max_tokens: None };
/// let cost = StepCost { step: Duration::from_millis(10), row: Duration::from_millis(1) };
/// let seen = replay(&[arrival(0, 5), arrival(100, 5)], 64, &Config::default(), cost, 0)?;
/// // The second finds an idle engine: 5 rows, then two steps of one.
/// assert_eq!(seen.first_token, [Duration::from_millis(15); 2]);
/// assert_eq!((seen.tokens, seen.wall), (6, Duration::from_millis(100 + 15 + 11 + 11)));
/// # Ok::<(), warpfold_engine::Error>(())
/// ```
///
/// # Errors
/// If settings do not fit sequences of `max_len` tokens, or a request does not.
pub fn replay(
    log: &[Arrival],
    max_len: usize,
    config: &Config,
    cost: StepCost,
    num_traces: usize,
) -> Result<ReplayResult, Error> {
    let is_traced = num_traces > 0;
    let mut engine = Engine::new(LogModel { max_len }, Config { trace: is_traced, overlap: false, ..config.clone() })?;
    let mut order: Vec<&Arrival> = log.iter().collect();
    order.sort_by_key(|arrival| arrival.at);
    let begin = order.first().map_or(Duration::ZERO, |first| first.at);
    let (mut now, mut next) = (begin, order.into_iter().peekable());
    let mut arrived: BTreeMap<RequestId, Duration> = BTreeMap::new();
    let mut latest: BTreeMap<RequestId, Duration> = BTreeMap::new();
    let (mut first_token, mut longest_wait, mut tokens) = (Vec::new(), Duration::ZERO, 0);
    let (mut traces, mut busy) = (Vec::new(), 0.0);
    let (mut unfilled, mut external) = (0.0, 0.0);
    let mut before = (0, 0);
    while !engine.is_idle() || next.peek().is_some() {
        if engine.is_idle() {
            now = next.peek().map_or(now, |arrival| now.max(arrival.at));
        }
        engine.set_time(now);
        while let Some(arrival) = next.next_if(|arrival| arrival.at <= now) {
            arrived.insert(engine.add(request(arrival))?, arrival.at);
        }
        let updates = engine.step()?;
        let metrics = engine.metrics();
        let rows = metrics.rows + metrics.padding_rows - before.0;
        let took = if metrics.steps > before.1 { cost.of(rows) } else { Duration::ZERO };
        before = (metrics.rows + metrics.padding_rows, metrics.steps);
        now += took;
        for update in &updates {
            tokens += update.tokens.len() as u64;
            match latest.insert(update.request, now) {
                None => first_token.push(now.saturating_sub(arrived[&update.request])),
                Some(before) => longest_wait = longest_wait.max(now - before),
            }
            if update.finish.is_some() {
                latest.remove(&update.request);
            }
        }
        busy += took.as_secs_f64();
        unfilled += took.as_secs_f64() * metrics.now.unfilled_slots as f64;
        let free_blocks = metrics.now.num_blocks - metrics.now.used_blocks;
        let apart = metrics.now.external_slots.min(free_blocks * config.block_size);
        external += took.as_secs_f64() * apart as f64;
        if traces.len() < num_traces {
            traces.extend(engine.trace().map(|trace| (now - begin, trace.clone())));
        }
    }
    first_token.sort_unstable();
    let metrics = engine.metrics();
    let all = (config.num_blocks * config.block_size) as f64 * busy;
    let share = |slots: f64| if all > 0.0 { slots / all } else { 0.0 };
    Ok(ReplayResult {
        steps: metrics.steps,
        rows: metrics.rows,
        padding_rows: metrics.padding_rows,
        tokens,
        wall: now - begin,
        first_token,
        longest_wait,
        preemptions: metrics.preempted_by_recompute + metrics.preempted_by_swap,
        unfilled: share(unfilled),
        external: share(external),
        traces,
    })
}

impl StepCost {
    /// A step of so many rows.
    #[must_use]
    pub fn of(self, rows: u64) -> Duration {
        self.step + self.row.saturating_mul(u32::try_from(rows).unwrap_or(u32::MAX))
    }
}

fn request(arrival: &Arrival) -> Request {
    Request {
        sampling: Sampling::greedy(),
        seed: Some((arrival.prompt + arrival.answer) as u64),
        max_tokens: arrival.max_tokens,
        ignore_eos: true,
        stop_ids: vec![END],
        ..Request::new(vec![OTHER; arrival.prompt])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Allocator, Policy};

    const COST: StepCost = StepCost { step: Duration::from_millis(10), row: Duration::from_millis(1) };

    fn arrival(ms: u64, prompt: usize, answer: usize) -> Arrival {
        Arrival { at: Duration::from_millis(ms), prompt, answer, max_tokens: None }
    }

    #[test]
    fn a_long_prompt_holds_an_answer_up_unless_it_is_cut() {
        // Ten tokens of an answer, and a prompt of 400 that arrives in the middle of it.
        let log = [arrival(0, 4, 10), arrival(50, 400, 2)];
        let base = Config { num_blocks: 64, budget: 512, ..Config::default() };
        let wait = |config: &Config| replay(&log, 512, config, COST, 0).expect("it plays").longest_wait.as_millis();
        assert_eq!(wait(&Config { policy: Policy::Orca, allocator: Allocator::Naive, ..base.clone() }), 10 + 401);
        // A quarter of the rows: the token of the answer and 99 of the prompt.
        assert_eq!(wait(&Config { budget: 100, ..base.clone() }), 10 + 100);
        // The prompt runs alone, and the answer's next step comes after it.
        assert_eq!(wait(&Config { policy: Policy::VllmV0, ..base }), 10 + 400 + 10 + 2);
    }

    #[test]
    fn all_policies_give_as_many_tokens_as_the_log_has() {
        let log: Vec<Arrival> = (0..20).map(|i| arrival(i * 7, 3 + i as usize * 5, 1 + i as usize)).collect();
        for policy in Policy::ALL {
            let config = Config { policy, num_blocks: 32, budget: 256, max_seqs: 4, ..Config::default() };
            let seen = replay(&log, 128, &config, COST, 5).expect("it plays");
            assert_eq!(seen.tokens, (1..=20).sum::<u64>(), "{policy:?}");
            assert_eq!((seen.first_token.len(), seen.traces.len()), (20, 5), "{policy:?}");
            assert_eq!(seen.padding_rows > 0, policy == Policy::Static, "{policy:?}");
        }
    }
}
