//! Steps and copies that fail at random among clients that leave, with texts, salts and a cache
//! that is emptied: a request that is not named as failed gets the answer that it gets alone, and
//! nothing is left.

use std::cell::Cell;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::{Config as Runs, TestCaseError, TestRunner};
use warpfold_engine::scripted::Scripted;
use warpfold_engine::{
    Allocator, Batch, CacheShape, Config, Decode, Engine, ErrorKind, Limits, Model, ModelError, Moves, Output, Policy,
    Preemption, Request, RequestId, Sampled, Ticket,
};

use super::invariance::{Job, job, schedule, with_room};
use super::{MAX_LEN, VOCAB, engine, fixed, small};

/// A model of which some calls fail: copies, the beginnings of steps, or their ends.
struct Flaky {
    inner: Scripted,
    fails: BTreeSet<u64>,
    calls: u64,
    /// Of the steps that run, whether their end fails.
    ends: VecDeque<bool>,
}

impl Flaky {
    fn call(&mut self) -> Result<(), ModelError> {
        self.calls += 1;
        if self.fails.contains(&self.calls) { Err("it was to fail".into()) } else { Ok(()) }
    }
}

impl Model for Flaky {
    fn limits(&self) -> Limits {
        self.inner.limits()
    }

    fn allocate(&mut self, cache: CacheShape) -> Result<(), ModelError> {
        self.inner.allocate(cache)
    }

    fn copy(&mut self, moves: &Moves) -> Result<(), ModelError> {
        self.call()?;
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
        self.call()?;
        let ticket = self.inner.submit(batch)?;
        let end = self.call();
        self.ends.push_back(end.is_err());
        Ok(ticket)
    }

    fn wait(&mut self, ticket: Ticket) -> Result<Vec<Sampled>, ModelError> {
        let fails = self.ends.pop_front().expect("a step is waited for once");
        let answers = self.inner.wait(ticket)?;
        if fails { Err("its end was to fail".into()) } else { Ok(answers) }
    }
}

/// Token `t` is the letter `a + t % 26`; token 0 is special.
struct Letters;

impl Decode for Letters {
    fn append(&self, token: u32, bytes: &mut Vec<u8>) {
        bytes.push(b'a' + (token % 26) as u8);
    }

    fn is_special(&self, token: u32) -> bool {
        token == 0
    }
}

/// What happens to a job.
#[derive(Debug, Clone)]
struct Events {
    fails: BTreeSet<u64>,
    /// Which request is given up, in which step.
    aborts: Vec<(usize, usize)>,
    /// Steps before which the cache forgets its prefixes.
    clears: BTreeSet<usize>,
    overlaps: bool,
}

fn events() -> impl Strategy<Value = Events> {
    let aborts = prop::collection::vec((0..9_usize, 0..40_usize), 0..5);
    let sets = (prop::collection::btree_set(1..150_u64, 0..4), prop::collection::btree_set(0..40_usize, 0..3));
    (sets, aborts, any::<bool>()).prop_map(|((fails, clears), aborts, overlaps)| Events {
        fails,
        aborts,
        clears,
        overlaps,
    })
}

/// The same requests, with stop strings and one of two salts.
fn with_texts(mut job: Job) -> Job {
    for (i, (_, request)) in job.requests.iter_mut().enumerate() {
        if request.beam.is_none() {
            request.stop = vec!["cc".to_owned(), "bcb".to_owned()];
            request.include_stop = i % 3 == 0;
        }
        request.salt = if i % 2 == 0 { "a".into() } else { "b".into() };
    }
    job
}

fn alone(request: &Request) -> Vec<Output> {
    let config = Config { block_size: 8, num_blocks: 64, check: true, ..Config::default() };
    let engine = Engine::new(Scripted::new(VOCAB, MAX_LEN), config).expect("the settings are right");
    let mut engine = engine.with_decode(Arc::new(Letters));
    engine.add(request.clone()).expect("the request is right");
    engine.run_to_end().expect("the model runs").into_values().next().expect("there is an answer")
}

/// What happened in all runs together.
#[derive(Debug, Default, Clone, Copy)]
struct Seen {
    failures: u64,
    failed: u64,
    aborted: u64,
    answered: u64,
    stopped_in_text: u64,
    swapped: u64,
}

fn run(job: &Job, config: &Config, events: &Events, seen: &mut Seen) -> Result<(), TestCaseError> {
    let inner = Scripted::new(VOCAB, MAX_LEN);
    let inner = if events.overlaps { inner.overlapping() } else { inner };
    let model = Flaky { inner, fails: events.fails.clone(), calls: 0, ends: VecDeque::new() };
    let mut engine = Engine::new(model, config.clone()).expect("the settings are right").with_decode(Arc::new(Letters));
    let mut ids: Vec<Option<RequestId>> = vec![None; job.requests.len()];
    let mut answers: Vec<Vec<Output>> = vec![Vec::new(); job.requests.len()];
    let mut gone = BTreeSet::new();
    for step in 0.. {
        for (i, (arrival, request)) in job.requests.iter().enumerate() {
            let can_run = request.beam.is_none() || config.allocator != Allocator::Contiguous;
            if *arrival == step && can_run {
                ids[i] = Some(engine.add(request.clone()).expect("the request is right"));
            }
        }
        for (i, _) in events.aborts.iter().filter(|(_, at)| *at == step) {
            if let Some(id) = ids.get(*i).copied().flatten().filter(|id| engine.abort(*id)) {
                gone.insert(id);
                seen.aborted += 1;
            }
        }
        if events.clears.contains(&step) {
            engine.clear_prefix_cache();
        }
        match engine.step() {
            Ok(updates) => {
                for update in updates {
                    let i = ids.iter().position(|id| *id == Some(update.request)).expect("it was added");
                    prop_assert!(!gone.contains(&update.request), "request {i} is over, and has an update");
                    let outputs = &mut answers[i];
                    outputs.resize(outputs.len().max(update.output + 1), Output::default());
                    outputs[update.output].extend(update);
                }
            }
            Err(error) => {
                let ErrorKind::Model { failed, .. } = error.kind() else { panic!("{error}") };
                seen.failures += 1;
                seen.failed += failed.len() as u64;
                prop_assert!(failed.iter().all(|id| gone.insert(*id)), "a request ends twice: {:?}", failed);
            }
        }
        if engine.is_idle() && step > 40 {
            break;
        }
        prop_assert!(step < 60_000, "the engine makes no progress: {:?}", engine.metrics());
    }
    engine.check_invariants();
    engine.clear_prefix_cache();
    let metrics = engine.metrics();
    let held = [metrics.now.used_blocks, metrics.now.used_host_blocks, metrics.now.cached_blocks];
    prop_assert_eq!(held, [0; 3], "something is left");
    seen.swapped += metrics.preempted_by_swap;
    for (i, id) in ids.iter().enumerate().filter_map(|(i, id)| Some((i, (*id)?))) {
        if !gone.contains(&id) {
            prop_assert_eq!(&answers[i], &alone(&job.requests[i].1), "request {}", i);
            seen.answered += 1;
            let ends = answers[i].iter().filter(|o| matches!(o.finish, Some(warpfold_engine::Finish::StopText(_))));
            seen.stopped_in_text += ends.count() as u64;
        }
    }
    Ok(())
}

#[test]
fn failures_end_those_whom_they_name_and_change_nobody_elses_answer() {
    let seen = Cell::new(Seen::default());
    let mut runner = TestRunner::new(Runs { cases: 2_000, failure_persistence: None, ..Runs::default() });
    let result = runner.run(&(job(), schedule(), events()), |(job, config, events)| {
        let job = with_texts(job);
        let config = with_room(config, &job);
        let mut all = seen.get();
        run(&job, &config, &events, &mut all)?;
        seen.set(all);
        Ok(())
    });
    result.unwrap_or_else(|e| panic!("{e}"));
    let seen = seen.get();
    let all = [seen.failures, seen.failed, seen.aborted, seen.answered, seen.stopped_in_text, seen.swapped];
    assert!(all.iter().all(|n| *n > 100), "too little has happened: {seen:?}");
}

#[test]
fn a_large_request_is_not_passed_by_small_ones_for_ever() {
    for policy in Policy::ALL {
        for preemption in [Preemption::Recompute, Preemption::Swap] {
            let config = Config {
                policy,
                preemption,
                num_blocks: 26,
                num_host_blocks: 26,
                max_seqs: 6,
                trace: false,
                ..small()
            };
            let mut engine = engine(config);
            let mut large = None;
            let mut ended = None;
            for step in 0..600 {
                for i in 0..2 {
                    engine.add(fixed(5, step * 2 + i, 6)).expect("it is small");
                }
                if step == 10 {
                    large = Some(engine.add(fixed(80, 1, 16)).expect("it fits alone"));
                }
                for update in engine.step().expect("the model runs") {
                    if Some(update.request) == large && update.finish.is_some() {
                        ended = Some(step);
                    }
                }
            }
            assert!(ended.is_some_and(|step| step < 250), "{policy:?}, {preemption:?}: {ended:?}");
        }
    }
}
