//! Scheduler: sequences of a step, their rows and their blocks.
//!
//! A [`Group`] is waiting, running or swapped; each queue is ordered by priority and arrival.
//! [`Scheduler::plan`] asks the policy (one file each: `static_batch`, `orca`, `vllm_v0`,
//! `continuous`), which is a few lines over three operations: `advance` gives running sequences
//! their rows, `admit` starts waiting groups, `preempt` takes blocks back and `resume` brings
//! swapped groups in. [`Scheduler::commit`] (in `commit`) applies what the model answered.
//!
//! Groups are visited in order and victims are taken from the end, so nothing that a plan has
//! scheduled is preempted.

mod admit;
mod advance;
mod assemble;
mod check;
mod commit;
mod continuous;
mod orca;
mod plan;
mod preempt;
mod static_batch;
mod vllm_v0;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::batch::SequenceId;
use crate::block::Pool;
use crate::config::{Allocator, Config, Policy};
use crate::constraint::LateMask;
use crate::detokenize::{Decode, Detokenizer};
use crate::error::{Error, ErrorKind, config, request};
use crate::group::{Group, Key, longest_total};
use crate::metrics::Metrics;
use crate::model::Limits;
use crate::planted::{EngineFault, planted};
use crate::pooling::PooledStates;
use crate::request::{Request, RequestId};
use crate::sampling::philox;
use crate::sequence::{Sequence, StopRules};

pub(crate) use plan::Plan;
use plan::Rows;

/// The queues and the pools.
#[derive(Debug)]
pub(crate) struct Scheduler {
    pub(crate) config: Config,
    pub(crate) limits: Limits,
    pub(crate) pool: Pool,
    pub(crate) host: Pool,
    pub(crate) waiting: BTreeMap<Key, Group>,
    /// Running groups, sorted when a step is planned; groups admitted or resumed by it are last
    /// until the next one.
    pub(crate) running: Vec<Group>,
    pub(crate) swapped: BTreeMap<Key, Group>,
    pub(crate) metrics: Metrics,
    pub(crate) now: Duration,
    /// No request comes after those that are there.
    pub(crate) is_draining: bool,
    /// Set while `running` is sorted.
    is_sorted: bool,
    /// Counts how often groups that run have changed places.
    order: u64,
    scratch: Vec<Rows>,
    /// Place of the state of each sequence that has one.
    states: BTreeMap<SequenceId, u32>,
    /// Guesses of a drafter for the next step, if there is one.
    pub(crate) guesses: Option<BTreeMap<SequenceId, Vec<u32>>>,
    /// An old plan, for its memory.
    spare: Plan,
    last_step: u64,
    last_request: u64,
    last_sequence: SequenceId,
}

impl Scheduler {
    pub(crate) fn new(config: Config, limits: Limits) -> Self {
        Self {
            pool: Pool::new(config.num_blocks),
            host: Pool::new(config.num_host_blocks),
            waiting: BTreeMap::new(),
            running: Vec::new(),
            swapped: BTreeMap::new(),
            metrics: Metrics::default(),
            now: Duration::ZERO,
            is_draining: false,
            is_sorted: true,
            order: 0,
            scratch: Vec::new(),
            states: BTreeMap::new(),
            guesses: None,
            spare: Plan::default(),
            last_step: 0,
            last_request: 0,
            last_sequence: 0,
            config,
            limits,
        }
    }

    /// Queues a request.
    pub(crate) fn add(&mut self, request: Request, decode: Option<&Arc<dyn Decode>>) -> Result<RequestId, Error> {
        let rules = self.rules(&request)?;
        if !request.stop.is_empty() && decode.is_none() {
            return Err(self::request("stop", "the engine has no tokenizer to find stop strings with"));
        }
        let mask = request.constraint.clone().map(|constraint| LateMask::start(constraint, self.limits.vocab));
        let mask = mask.transpose()?;
        self.last_request += 1;
        let id = RequestId(self.last_request);
        let seed = request.seed.unwrap_or_else(|| drawn_seed(self.config.seed, id));
        let num = if request.beam.is_some() { 1 } else { request.n };
        let has_penalties = request.sampling.has_penalties();
        let stop: Arc<[String]> = request.stop.as_slice().into();
        let sequence = |output: usize| {
            self.last_sequence += 1;
            let seed = seed.wrapping_add(output as u64);
            let mut seq = Sequence::new(self.last_sequence, output, seed, &request.prompt, has_penalties);
            let text = |d: &Arc<dyn Decode>| {
                Detokenizer::new(d.clone(), stop.clone(), request.include_stop, request.skip_special)
            };
            seq.text = decode.map(text);
            // One answer takes it as it is.
            seq.mask = if num == 1 { mask.clone() } else { mask.as_ref().map(LateMask::fork) };
            seq.is_attached = output > 0 && self.config.shares();
            seq
        };
        let group = Group {
            key: Key { priority: request.priority, id },
            sampling: Arc::new(request.sampling.clone()),
            rules,
            seqs: (0..num).map(sequence).collect(),
            fork_at: request.prompt.len(),
            seed,
            prompt_logprobs: Vec::new(),
            are_prompt_logprobs_reported: false,
            pooled: request.pooling.map(|pooling| PooledStates::new(pooling, request.prompt.len())),
            embedding: None,
            hypotheses: Vec::new(),
            arrival: self.now,
            queued: None,
            cached: None,
            is_spared: false,
            request,
        };
        self.waiting.insert(group.key, group);
        Ok(id)
    }

    /// Forgets a request and frees what it holds; returns whether it was there.
    pub(crate) fn abort(&mut self, id: RequestId) -> bool {
        let is_it = |key: &&Key| key.id == id;
        if let Some(i) = self.running.iter().position(|g| g.key.id == id && g.num_live() > 0) {
            self.order += 1;
            self.running.remove(i).release(&mut self.pool);
        } else if let Some(key) = self.swapped.keys().find(is_it).copied() {
            let given_up = self.swapped.remove(&key).filter(|_| !planted(EngineFault::AbortOfSwappedLeaks));
            given_up.into_iter().for_each(|mut g| g.release(&mut self.host));
        } else if let Some(key) = self.waiting.keys().find(is_it).copied() {
            self.waiting.remove(&key);
        } else {
            return false;
        }
        self.metrics.aborted += 1;
        true
    }

    /// Decides what the next step runs; `is_ahead` says that the one before still does.
    pub(crate) fn plan(&mut self, is_ahead: bool) -> Plan {
        self.last_step += 1;
        self.pool.begin_step(self.config.trace);
        let mut plan = std::mem::take(&mut self.spare).renewed(self.last_step, self.config.budget, is_ahead);
        if !std::mem::replace(&mut self.is_sorted, true) {
            self.running.sort_by_key(|g| g.key);
            self.order += 1;
        }
        self.inject_preemptions(&mut plan);
        match self.config.policy {
            _ if plan.is_short => {}
            Policy::Static => self.plan_static(&mut plan),
            Policy::Orca => self.plan_orca(&mut plan),
            Policy::VllmV0 => self.plan_vllm_v0(&mut plan),
            Policy::Continuous => self.plan_continuous(&mut plan),
        }
        plan.order = self.order;
        plan
    }

    /// The number of the step that is planned next.
    pub(crate) fn next_step(&self) -> u64 {
        self.last_step + 1
    }

    /// Takes back a plan that has nothing to do, and its number.
    pub(crate) fn withdraw(&mut self, plan: Plan) {
        debug_assert!(plan.is_empty() && plan.step == self.last_step, "a plan with work is withdrawn");
        self.last_step -= 1;
        self.recycle(plan);
    }

    /// Takes back the memory of a plan that is over.
    pub(crate) fn recycle(&mut self, plan: Plan) {
        self.spare = plan;
    }

    /// Puts a group after those that run.
    fn push_running(&mut self, group: Group) {
        self.is_sorted &= self.running.last().is_none_or(|last| last.key <= group.key);
        self.running.push(group);
    }

    /// Returns whether every request has ended.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.running.is_empty() && self.swapped.is_empty()
    }

    /// Sequences that occupy a slot of the batch.
    pub(crate) fn num_slots(&self) -> usize {
        self.running.iter().map(Group::num_slots).sum()
    }

    /// Compares a request with all limits, and says when its sequences end.
    fn rules(&self, request: &Request) -> Result<StopRules, Error> {
        let config = &self.config;
        let limits =
            Limits { max_len: config.max_len.unwrap_or(usize::MAX).min(self.limits.max_len), ..self.limits.clone() };
        request.validate(&limits)?;
        let num = request.num_sequences();
        if num > config.max_seqs {
            let reason = format!("{num} sequences, but at most {} run at a time (--max-seqs)", config.max_seqs);
            return Err(self::request(if request.beam.is_some() { "beam" } else { "n" }, reason));
        }
        if request.beam.is_some() && self.limits.state_bytes > 0 {
            return Err(self::request("beam", "the model keeps a state of each sequence, which beams cannot share"));
        }
        if request.beam.is_some() && !config.shares() {
            return Err(self::config("--allocator", "beam search forks sequences, which needs shared blocks"));
        }
        // Alone, a request must fit, or it would wait for ever.
        let have = config.num_blocks - config.watermark_blocks();
        let prompt = request.prompt.len();
        let fits = longest_total(num, prompt, have, config.block_size, config.shares()).min(limits.max_len);
        let least = prompt + request.least_new();
        if least > fits {
            let need = crate::group::worst_blocks(num, prompt, least, config.block_size, config.shares());
            let bytes = self.limits.kv_bytes_per_token * config.block_size as u64;
            let missing_bytes = (need.saturating_sub(have)) as u64 * bytes;
            return Err(ErrorKind::TooLarge { need, need_bytes: need as u64 * bytes, have, missing_bytes }.into());
        }
        let eos = if request.ignore_eos { &[][..] } else { &self.limits.eos };
        let stop_ids = eos.iter().chain(&request.stop_ids).copied().collect();
        let new = request.max_tokens.or(request.pooling.map(|_| 0));
        let max_total = new.map_or(fits, |new| prompt + new);
        Ok(StopRules { stop_ids, min_tokens: request.min_tokens, max_total })
    }
}

impl Config {
    /// Returns whether sequences may share a block.
    pub(crate) fn shares(&self) -> bool {
        !matches!(self.allocator, Allocator::Contiguous | Allocator::Unshared) && self.kv_cache
    }
}

/// A seed for a request that gives none.
fn drawn_seed(key: u64, id: RequestId) -> u64 {
    let words = philox(key, [(id.0 & 0xFFFF_FFFF) as u32, (id.0 >> 32) as u32, 0, 2]);
    // JSON's numbers hold 53 bits exactly, and the answers of a group count on from here.
    (u64::from(words[0]) << 32 | u64::from(words[1])) >> 12
}
