//! The step loop: plan, run, commit; where the model can, the next plan is made while a step runs.

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::batch::{Batch, SequenceId};
use crate::config::Config;
use crate::detokenize::Decode;
use crate::error::{Error, ErrorKind, ModelError};
use crate::metrics::{Gauges, Metrics, Part, Residence};
use crate::model::{CacheShape, Model, Ticket};
use crate::planted::{EngineFault, planted};
use crate::request::{Adapter, Output, Request, RequestId, Update};
use crate::sampling::Sampled;
use crate::scheduler::{Plan, Scheduler};
use crate::speculate::Drafter;
use crate::trace::{StepTrace, rows_of};

/// A model, its cache, and the requests that it answers.
pub struct Engine<M> {
    model: M,
    scheduler: Scheduler,
    decode: Option<Arc<dyn Decode>>,
    /// The last one, for its memory.
    batch: Batch,
    /// Steps that were launched and not waited for, the oldest first: two at most.
    in_flight: VecDeque<Flight>,
    trace: Option<StepTrace>,
    on_trace: Option<OnTrace>,
    drafter: Option<Box<dyn Drafter>>,
    external_slots: usize,
    /// Weights that the model has had before those it has.
    weights: usize,
    cache: CacheShape,
    residence: Residence,
}

/// A function that is called with the trace of each step.
pub type OnTrace = Box<dyn FnMut(&StepTrace) + Send>;

/// A step that was handed to the model.
#[derive(Debug)]
struct Flight {
    plan: Plan,
    /// Nothing if there were only copies to do.
    ticket: Option<Ticket>,
    /// The rows, for the trace.
    rows: Vec<(SequenceId, usize, usize)>,
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
        let config = config.for_limits(&limits);
        let shape = CacheShape {
            block_size: config.block_size,
            num_blocks: config.num_blocks + 1,
            num_host_blocks: config.num_host_blocks + 1,
            num_states: if limits.state_bytes > 0 { config.max_seqs } else { 0 },
        };
        let CacheShape { num_blocks, num_host_blocks, .. } = shape;
        let block_bytes = limits.kv_bytes_per_token * config.block_size as u64;
        let failed = |source| ErrorKind::Cache { num_blocks, num_host_blocks, block_bytes, source };
        model.allocate(shape).map_err(failed)?;
        let drafter = model.drafter(shape).map_err(failed)?;
        let scheduler = Scheduler::new(config, limits);
        let (batch, in_flight) = (Batch::default(), VecDeque::new());
        let engine = Self {
            model,
            scheduler,
            decode: None,
            batch,
            in_flight,
            trace: None,
            on_trace: None,
            drafter: None,
            external_slots: 0,
            weights: 0,
            cache: shape,
            residence: Residence::Awake,
        };
        Ok(match drafter {
            Some(drafter) => engine.with_drafter(drafter),
            None => engine,
        })
    }

    /// Traces each step, whatever [`Config::trace`] says, and passes the trace on. Steps then take
    /// turns with the model.
    #[must_use]
    pub fn with_trace(mut self, on_trace: OnTrace) -> Self {
        self.scheduler.config.trace = true;
        self.on_trace = Some(on_trace);
        self
    }

    /// Guesses tokens by a second model instead of the text so far: up to
    /// [`num_drafts`](crate::Speculation::num_drafts) a step, fewer for a sequence whose last
    /// guesses were wrong. Answers are the same, bit by bit. A model that keeps a
    /// [state](crate::Limits::state_bytes) of a sequence runs none of the guesses.
    ///
    /// ```
    /// use warpfold_engine::scripted::Scripted;
    /// use warpfold_engine::{Config, DraftModel, Engine, Request};
    ///
    /// let model = || Scripted::new(100, 128);
    /// let answer = |mut engine: Engine<Scripted>| {
    ///     engine.add(Request { seed: Some(1), max_tokens: Some(20), ..Request::new(vec![1, 2]) })?;
    ///     let answers = engine.run_to_end()?;
    ///     Ok::<_, warpfold_engine::Error>((answers, engine.metrics().steps))
    /// };
    /// let config = Config { num_blocks: 32, ..Config::default() };
    /// let plain = answer(Engine::new(model(), config.clone())?)?;
    /// // It drafts for itself: no guess is wrong.
    /// let drafted = answer(Engine::new(model(), config)?.with_drafter(DraftModel::new(model(), 32, 16, 8)?))?;
    /// assert_eq!(drafted.0, plain.0);
    /// assert!(drafted.1 < plain.1 / 2);
    /// # Ok::<(), warpfold_engine::Error>(())
    /// ```
    #[must_use]
    pub fn with_drafter(mut self, drafter: impl Drafter + 'static) -> Self {
        self.scheduler.config.speculation.get_or_insert_default();
        self.scheduler.guesses = Some(BTreeMap::new());
        self.drafter = Some(Box::new(drafter));
        self
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
        if self.is_sleeping() {
            return Err(ErrorKind::Asleep.into());
        }
        self.scheduler.add(request, self.decode.as_ref())
    }

    /// Gives a request up and frees what it holds; returns whether it was there.
    pub fn abort(&mut self, id: RequestId) -> bool {
        let was_there = self.scheduler.abort(id);
        self.check();
        was_there
    }

    /// Runs one step and returns what it adds to answers. Without work it returns nothing. With a
    /// model that [overlaps](Model::overlaps) steps the next one is on its way when this returns.
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
        self.try_step(done).map_err(|(step, source)| self.fail(step, source))
    }

    /// Returns whether every request has ended.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.scheduler.is_idle() && self.in_flight.is_empty()
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

    /// Tells the time since some beginning: requests arrive at it, static batches wait by it.
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
        let now = Gauges::of(&self.scheduler, self.external_slots, self.residence);
        Metrics { now, ..self.scheduler.metrics.clone() }
    }

    /// Returns the trace of the last step, if [`Config::trace`] asks for it.
    #[must_use]
    pub fn trace(&self) -> Option<&StepTrace> {
        self.trace.as_ref()
    }

    /// Brings an adapter to the model. Steps that are on their way do not have it.
    ///
    /// # Errors
    /// What the model says.
    pub fn load_adapter(&mut self, adapter: &Adapter, weights: &(dyn Any + Send + Sync)) -> Result<(), ModelError> {
        self.model.load_adapter(adapter, weights)
    }

    /// Gives the model other weights, and forgets what the cache holds of the old ones.
    ///
    /// # Errors
    /// What the model says, which then has its old weights, or that requests have not ended.
    pub fn load_weights(&mut self, weights: &(dyn Any + Send + Sync)) -> Result<(), ModelError> {
        if !self.is_idle() && !planted(EngineFault::WeightsDoNotWait) {
            return Err("requests have not ended, and an answer is one of the same weights".into());
        }
        self.model.load_weights(weights)?;
        if !planted(EngineFault::PrefixesOutliveWeights) {
            self.clear_prefix_cache();
        }
        self.weights += 1;
        if self.residence == Residence::WithoutWeights {
            self.residence = Residence::WithWeights;
        }
        Ok(())
    }

    /// Frees the memory of weights and cache; requests are refused from here on. Nothing happens if
    /// the model sleeps.
    ///
    /// # Errors
    /// What the model says, or that requests have not ended.
    pub fn sleep(&mut self) -> Result<(), ModelError> {
        if !self.is_idle() {
            return Err("requests have not ended".into());
        }
        if self.residence != Residence::WithoutWeights {
            self.model.sleep()?;
            self.clear_prefix_cache();
            self.residence = Residence::WithoutWeights;
        }
        Ok(())
    }

    /// Gives a model that slept, and has [weights](Self::load_weights) since, its cache again, and
    /// takes requests. Nothing happens if it is awake.
    ///
    /// # Errors
    /// That there are no weights, or no room for the cache; it then sleeps on.
    pub fn wake(&mut self) -> Result<(), ModelError> {
        match self.residence {
            Residence::Awake => {}
            Residence::WithoutWeights => return Err("the model has no weights".into()),
            Residence::WithWeights => self.model.allocate(self.cache)?,
        }
        self.residence = Residence::Awake;
        Ok(())
    }

    /// Returns whether the model sleeps.
    #[must_use]
    pub fn is_sleeping(&self) -> bool {
        self.residence != Residence::Awake
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

    /// Launches a step, unless one runs, and the one after it, if that can be planned; then waits
    /// for the first.
    fn try_step(&mut self, done: &mut dyn FnMut(Part)) -> Result<Vec<Update>, (u64, ModelError)> {
        if self.in_flight.is_empty() {
            self.launch(false, done)?;
            self.in_flight.iter_mut().for_each(|flight| self.scheduler.advance(&mut flight.plan));
        }
        if self.may_overlap() {
            self.in_flight.iter_mut().for_each(|flight| self.scheduler.expect(&mut flight.plan));
            self.launch(true, done)?;
        }
        let Some(Flight { mut plan, ticket, rows }) = self.in_flight.pop_front() else { return Ok(Vec::new()) };
        let answers = self.wait(ticket, plan.targets.len()).map_err(|source| (plan.step, source))?;
        done(Part::Wait);
        let mut updates = self.scheduler.commit(&mut plan, answers);
        updates.iter_mut().for_each(|update| update.weights = self.weights);
        self.in_flight.iter_mut().for_each(|next| self.scheduler.advance(&mut next.plan));
        self.observe(&plan, rows);
        self.scheduler.recycle(plan);
        done(Part::Commit);
        Ok(updates)
    }

    /// Returns whether the step after the running one can be planned now.
    fn may_overlap(&self) -> bool {
        let config = &self.scheduler.config;
        let can_follow = |f: &Flight| f.ticket.is_some() && f.plan.is_predictable && !f.plan.is_short;
        config.overlap && !config.trace && self.model.overlaps() && self.in_flight.front().is_some_and(can_follow)
    }

    /// Plans a step and submits it. One that has nothing to do runs only if no other does.
    fn launch(&mut self, is_ahead: bool, done: &mut dyn FnMut(Part)) -> Result<(), (u64, ModelError)> {
        self.guess()?;
        let mut plan = self.scheduler.plan(is_ahead);
        let rows = self.planned_rows(&plan);
        done(Part::Plan);
        if is_ahead && plan.is_empty() {
            self.scheduler.withdraw(plan);
            return Ok(());
        }
        let ticket = self.submit(&mut plan, done).map_err(|source| (plan.step, source))?;
        self.in_flight.push_back(Flight { plan, ticket, rows });
        Ok(())
    }

    /// Asks the drafter, if there is one, for the sequences that decode.
    fn guess(&mut self) -> Result<(), (u64, ModelError)> {
        let Some(drafter) = &mut self.drafter else { return Ok(()) };
        let asked = self.scheduler.draft_requests();
        let guesses = match asked.is_empty() {
            true => Vec::new(),
            false => drafter.draft(&asked).map_err(|source| (self.scheduler.next_step(), source))?,
        };
        self.scheduler.guesses = Some(asked.iter().map(|asked| asked.sequence).zip(guesses).collect());
        Ok(())
    }

    /// Copies, then the forward pass, if there are rows.
    fn submit(&mut self, plan: &mut Plan, done: &mut dyn FnMut(Part)) -> Result<Option<Ticket>, ModelError> {
        if plan.moves != Default::default() {
            self.model.copy(&plan.moves)?;
        }
        if self.scheduler.config.check {
            self.scheduler.check_writes(plan);
        }
        self.scheduler.assemble(plan, &mut self.batch);
        done(Part::Assemble);
        if self.batch.is_empty() {
            return Ok(None);
        }
        let ticket = self.model.submit(&self.batch)?;
        // Counts are shared with their sequences, which change them in place once nobody else
        // looks.
        self.batch.samples.clear();
        done(Part::Submit);
        Ok(Some(ticket))
    }

    fn wait(&mut self, ticket: Option<Ticket>, asked: usize) -> Result<Vec<Sampled>, ModelError> {
        let answers = ticket.map_or_else(|| Ok(Vec::new()), |ticket| self.model.wait(ticket))?;
        let got = answers.len();
        (asked == got).then_some(answers).ok_or_else(|| format!("{got} answers to {asked} samples").into())
    }

    fn fail(&mut self, step: u64, source: ModelError) -> Error {
        for ticket in self.in_flight.drain(..).filter_map(|flight| flight.ticket) {
            // What it answers is for requests that end here.
            self.model.wait(ticket).ok();
        }
        let failed = self.scheduler.fail();
        self.check();
        ErrorKind::Model { step, failed, source }.into()
    }

    fn planned_rows(&self, plan: &Plan) -> Vec<(SequenceId, usize, usize)> {
        if self.scheduler.config.trace { rows_of(&self.scheduler, plan) } else { Vec::new() }
    }

    fn observe(&mut self, plan: &Plan, rows: Vec<(SequenceId, usize, usize)>) {
        self.external_slots = plan.external_slots;
        if self.scheduler.config.trace {
            let trace = self.trace.insert(StepTrace::new(&self.scheduler, plan, rows));
            self.on_trace.iter_mut().for_each(|pass_on| pass_on(trace));
        }
        self.check();
    }

    fn check(&self) {
        if self.scheduler.config.check {
            self.scheduler.check();
        }
    }
}
