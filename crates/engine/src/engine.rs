//! The step loop: plan, run, commit.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::batch::Batch;
use crate::config::Config;
use crate::detokenize::Decode;
use crate::error::{Error, ErrorKind, ModelError};
use crate::metrics::{Gauges, Metrics};
use crate::model::{CacheShape, Model};
use crate::request::{Output, Request, RequestId, Update};
use crate::sampling::Sampled;
use crate::scheduler::{Plan, Scheduler};
use crate::trace::{StepTrace, rows_of};

/// A model, its cache, and the requests that it answers.
pub struct Engine<M> {
    model: M,
    scheduler: Scheduler,
    decode: Option<Arc<dyn Decode>>,
    /// The last one, for its memory.
    batch: Batch,
    trace: Option<StepTrace>,
    external_slots: usize,
}

/// A part of a step, for those who take its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Deciding who runs.
    Plan,
    /// Filling the batch.
    Assemble,
    /// The model.
    Run,
    /// Applying its answers, and text.
    Commit,
}

impl<M: std::fmt::Debug> std::fmt::Debug for Engine<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("model", &self.model).field("scheduler", &self.scheduler).finish_non_exhaustive()
    }
}

impl<M: Model> Engine<M> {
    /// Compares the settings with the model and allocates the cache.
    ///
    /// # Errors
    /// If the settings do not fit one another or the model, or the model has no room for the cache.
    pub fn new(mut model: M, config: Config) -> Result<Self, Error> {
        let limits = model.limits();
        config.validate(&limits)?;
        let shape = CacheShape {
            block_size: config.block_size,
            num_blocks: config.num_blocks + 1,
            num_host_blocks: config.num_host_blocks + 1,
        };
        let CacheShape { num_blocks, num_host_blocks, .. } = shape;
        let block_bytes = limits.kv_bytes_per_token * config.block_size as u64;
        let failed = |source| ErrorKind::Cache { num_blocks, num_host_blocks, block_bytes, source };
        model.allocate(shape).map_err(failed)?;
        let scheduler = Scheduler::new(config, limits);
        Ok(Self { model, scheduler, decode: None, batch: Batch::default(), trace: None, external_slots: 0 })
    }

    /// Gives answers a text, and stop strings a meaning.
    #[must_use]
    pub fn with_decode(mut self, decode: Arc<dyn Decode>) -> Self {
        self.decode = Some(decode);
        self
    }

    /// Queues a request.
    ///
    /// # Errors
    /// If a field is wrong, or the request could never run; nothing is queued then.
    pub fn add(&mut self, request: Request) -> Result<RequestId, Error> {
        self.scheduler.add(request, self.decode.as_ref())
    }

    /// Gives a request up and frees what it holds; returns whether it was there.
    pub fn abort(&mut self, id: RequestId) -> bool {
        let was_there = self.scheduler.abort(id);
        self.check();
        was_there
    }

    /// Runs one step and returns what it adds to answers. Without work it returns nothing.
    ///
    /// # Errors
    /// If the model fails. The error names the requests that ended with it; those that wait are
    /// still there.
    pub fn step(&mut self) -> Result<Vec<Update>, Error> {
        self.step_with(&mut |_| {})
    }

    /// The same, and says when each part is done: the caller has the clock.
    ///
    /// # Errors
    /// Those of [`Self::step`].
    pub fn step_with(&mut self, done: &mut dyn FnMut(Part)) -> Result<Vec<Update>, Error> {
        let mut plan = self.scheduler.plan();
        let rows = self.planned_rows(&plan);
        done(Part::Plan);
        let answers = match self.run(&mut plan, done) {
            Ok(answers) => answers,
            Err(source) => return Err(self.fail(&plan, source)),
        };
        done(Part::Run);
        let updates = self.scheduler.commit(&plan, answers);
        self.observe(&plan, rows);
        self.scheduler.recycle(plan);
        done(Part::Commit);
        Ok(updates)
    }

    /// Whether every request has ended.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.scheduler.is_idle()
    }

    /// Requests that have not started.
    #[must_use]
    pub fn num_waiting(&self) -> usize {
        self.scheduler.waiting.len()
    }

    /// Steps that ran rows.
    pub(crate) fn num_steps(&self) -> u64 {
        self.scheduler.metrics.steps
    }

    /// Says that no request comes after those that are there, so that static batches wait for none.
    pub fn set_draining(&mut self) {
        self.scheduler.is_draining = true;
    }

    /// Steps until every request has ended, and returns their answers.
    ///
    /// # Errors
    /// The first failure of the model.
    pub fn run_to_end(&mut self) -> Result<BTreeMap<RequestId, Vec<Output>>, Error> {
        let was_draining = std::mem::replace(&mut self.scheduler.is_draining, true);
        let answers = self.collect();
        self.scheduler.is_draining = was_draining;
        answers
    }

    /// Tells the time since some beginning; static batches wait by it.
    pub fn set_time(&mut self, now: Duration) {
        self.scheduler.now = now;
    }

    /// Forgets all prefixes that the cache holds.
    pub fn clear_prefix_cache(&mut self) {
        self.scheduler.pool.clear_index();
    }

    /// Counters since the start, and what is there now.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        let now = Gauges::of(&self.scheduler, self.external_slots);
        Metrics { now, ..self.scheduler.metrics.clone() }
    }

    /// What the last step did, if [`Config::trace`] asks for it.
    #[must_use]
    pub fn trace(&self) -> Option<&StepTrace> {
        self.trace.as_ref()
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &M {
        &self.model
    }

    /// Compares pools, tables and queues.
    ///
    /// # Panics
    /// If one of their invariants is broken; the message says which.
    pub fn check_invariants(&self) {
        self.scheduler.check();
    }

    fn collect(&mut self) -> Result<BTreeMap<RequestId, Vec<Output>>, Error> {
        let mut answers: BTreeMap<RequestId, Vec<Output>> = BTreeMap::new();
        while !self.is_idle() {
            for update in self.step()? {
                let outputs = answers.entry(update.request).or_default();
                outputs.resize(outputs.len().max(update.output + 1), Output::default());
                outputs[update.output].extend(update);
            }
        }
        Ok(answers)
    }

    /// Copies, then the forward pass.
    fn run(&mut self, plan: &mut Plan, done: &mut dyn FnMut(Part)) -> Result<Vec<Sampled>, ModelError> {
        if plan.moves != Default::default() {
            self.model.copy(&plan.moves)?;
        }
        if self.scheduler.config.check {
            self.scheduler.check_writes(plan);
        }
        self.scheduler.assemble(plan, &mut self.batch);
        done(Part::Assemble);
        if self.batch.is_empty() {
            return Ok(Vec::new());
        }
        let answers = self.model.step(&self.batch)?;
        // Counts are shared with their sequences, which change them in place once nobody else
        // looks.
        let asked = self.batch.samples.drain(..).len();
        let got = answers.len();
        (asked == got).then_some(answers).ok_or_else(|| format!("{got} answers to {asked} samples").into())
    }

    fn fail(&mut self, plan: &Plan, source: ModelError) -> Error {
        let failed = self.scheduler.fail(plan);
        self.check();
        ErrorKind::Model { step: plan.step, failed, source }.into()
    }

    fn planned_rows(&self, plan: &Plan) -> Vec<(u64, usize, usize)> {
        if self.scheduler.config.trace { rows_of(&self.scheduler, plan) } else { Vec::new() }
    }

    fn observe(&mut self, plan: &Plan, rows: Vec<(u64, usize, usize)>) {
        self.external_slots = plan.external_slots;
        if self.scheduler.config.trace {
            self.trace = Some(StepTrace::new(&self.scheduler, plan, rows));
        }
        self.check();
    }

    fn check(&self) {
        if self.scheduler.config.check {
            self.scheduler.check();
        }
    }
}
