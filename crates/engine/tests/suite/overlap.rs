//! Steps that are prepared while the one before runs: what is fed, what is discarded, what ends.

use std::collections::BTreeMap;
use std::time::Duration;

use warpfold_engine::scripted::Scripted;
use warpfold_engine::{
    Batch, CacheShape, Config, Engine, Limits, Model, ModelError, Moves, Part, Request, Sampled, Sampling, Ticket,
};

use super::{MAX_LEN, VOCAB, fixed, small};

fn config() -> Config {
    Config { trace: false, ..small() }
}

fn overlapping() -> Scripted {
    Scripted::new(VOCAB, MAX_LEN).overlapping()
}

fn engine<M: Model>(model: M, config: Config) -> Engine<M> {
    Engine::new(model, config).expect("the settings are right")
}

/// The parts of a step in their order.
fn parts<M: Model>(engine: &mut Engine<M>) -> Vec<Part> {
    let mut parts = Vec::new();
    engine.step_with(&mut |part| parts.push(part)).expect("the model runs");
    parts
}

#[test]
fn a_step_is_submitted_before_the_one_before_it_is_waited_for() {
    let mut engine = engine(overlapping(), config());
    engine.add(fixed(9, 1, 4)).expect("the request is right");
    let launch = [Part::Plan, Part::Assemble, Part::Submit];
    let end = [Part::Wait, Part::Commit];
    assert_eq!(parts(&mut engine), [&launch[..], &launch, &end].concat(), "the first two");
    assert_eq!(parts(&mut engine), [&launch[..], &end].concat());
    assert_eq!(parts(&mut engine), [&launch[..], &end].concat());
    // The fourth token is known to be the last before it is known what it is.
    assert_eq!(parts(&mut engine), [&[Part::Plan][..], &end].concat());
    let metrics = engine.metrics();
    assert_eq!((metrics.steps, metrics.overlapped_steps, metrics.discarded_tokens), (4, 3, 0));
    assert!(engine.is_idle());
}

#[test]
fn an_end_that_is_found_a_step_late_discards_one_token_and_frees_all() {
    let request = || Request { ignore_eos: true, ..Request::greedy((1..9).collect(), 40) };
    let mut plain = engine(Scripted::new(VOCAB, MAX_LEN), config());
    let id = plain.add(request()).expect("the request is right");
    let expected = plain.run_to_end().expect("the model runs")[&id][0].ids();
    // The fifth token ends the answer: nobody knows before it is drawn.
    let stop = Request { stop_ids: vec![expected[4]], min_tokens: 4, ..request() };
    let mut engine = engine(overlapping(), config());
    let id = engine.add(stop).expect("the request is right");
    let mut got = Vec::new();
    while got.len() < 5 {
        got.extend(engine.step().expect("the model runs"));
    }
    assert!(!engine.is_idle(), "a step still runs");
    assert_eq!(engine.step().expect("the model runs"), []);
    assert!(engine.is_idle());
    assert_eq!(got.iter().map(|u| u.tokens[0].token).collect::<Vec<_>>(), expected[..5]);
    assert!(got.iter().all(|u| u.request == id) && got[4].finish.is_some());
    let metrics = engine.metrics();
    assert_eq!((metrics.discarded_tokens, metrics.generation_tokens, metrics.now.used_blocks), (1, 5, 0));
}

#[test]
fn what_depends_on_the_token_before_waits_for_it() {
    let overlapped = |request: Request| {
        let mut engine = engine(overlapping(), config());
        engine.add(request).expect("the request is right");
        engine.run_to_end().expect("the model runs");
        engine.metrics().overlapped_steps
    };
    assert_eq!(overlapped(fixed(9, 1, 8)), 7);
    let penalties = Sampling { frequency_penalty: 0.5, ..Sampling::greedy() };
    assert_eq!(overlapped(Request { sampling: penalties, ..fixed(9, 1, 8) }), 0);
    // Scores of the prompt come with its first step.
    assert_eq!(overlapped(Request { prompt_logprobs: Some(0), ..fixed(9, 1, 8) }), 6);
    let mut engine = engine(overlapping(), Config { overlap: false, ..config() });
    engine.add(fixed(9, 1, 8)).expect("the request is right");
    engine.run_to_end().expect("the model runs");
    assert_eq!(engine.metrics().overlapped_steps, 0);
}

#[test]
fn a_request_given_up_while_its_step_runs_leaves_nothing() {
    let mut engine = engine(overlapping(), config());
    let other = engine.add(fixed(9, 1, 20)).expect("the request is right");
    let id = engine.add(fixed(9, 3, 20)).expect("the request is right");
    for _ in 0..3 {
        engine.step().expect("the model runs");
    }
    assert!(engine.abort(id));
    let answers = engine.run_to_end().expect("the model runs");
    assert!(answers.keys().all(|answered| *answered == other));
    assert_eq!(answers[&other][0].tokens.len(), 17);
    engine.check_invariants();
    assert_eq!(engine.metrics().now.used_blocks, 0);
}

#[test]
fn a_failure_ends_what_runs_in_both_steps_and_the_engine_goes_on() {
    for step in 1..5 {
        let mut engine = engine(overlapping().failing_at(step), config());
        let id = engine.add(fixed(9, 1, 20)).expect("the request is right");
        let error = engine.run_to_end().expect_err("the model fails").to_string();
        assert!(error.contains(&format!("step {step} ")), "{error}");
        assert!(engine.is_idle() && !engine.abort(id));
        engine.check_invariants();
        assert_eq!(engine.metrics().now.used_blocks, 0);
        let id = engine.add(fixed(9, 1, 20)).expect("the request is right");
        assert_eq!(engine.run_to_end().expect("the model runs")[&id][0].tokens.len(), 20);
    }
}

#[test]
fn an_update_tells_how_long_its_request_was_queued() {
    let mut engine = engine(Scripted::new(VOCAB, MAX_LEN), Config { max_seqs: 1, ..config() });
    engine.set_time(Duration::from_secs(1));
    let ids = [1, 3].map(|first| engine.add(fixed(5, first, 4)).expect("the request is right"));
    let mut queued = BTreeMap::new();
    for second in 2..10 {
        engine.set_time(Duration::from_secs(second));
        queued.extend(engine.step().expect("the model runs").into_iter().map(|u| (u.request, u.queued.as_secs())));
    }
    // The first runs from second 2 to second 5.
    assert_eq!(queued, BTreeMap::from([(ids[0], 1), (ids[1], 5)]));
}

/// Feeds each row what another one was to get.
struct Misfed(Scripted);

impl Model for Misfed {
    fn limits(&self) -> Limits {
        self.0.limits()
    }

    fn allocate(&mut self, cache: CacheShape) -> Result<(), ModelError> {
        self.0.allocate(cache)
    }

    fn copy(&mut self, moves: &Moves) -> Result<(), ModelError> {
        self.0.copy(moves)
    }

    fn step(&mut self, batch: &Batch) -> Result<Vec<Sampled>, ModelError> {
        self.0.step(batch)
    }

    fn overlaps(&self) -> bool {
        true
    }

    fn submit(&mut self, batch: &Batch) -> Result<Ticket, ModelError> {
        let mut batch = batch.clone();
        let samples: Vec<u32> = batch.feeds.iter().rev().map(|f| f.sample).collect();
        batch.feeds.iter_mut().zip(samples).for_each(|(feed, sample)| feed.sample = sample);
        self.0.submit(&batch)
    }

    fn wait(&mut self, ticket: Ticket) -> Result<Vec<Sampled>, ModelError> {
        self.0.wait(ticket)
    }
}

#[test]
fn a_model_that_feeds_the_wrong_token_answers_something_else() {
    fn answers<M: Model>(model: M) -> Vec<Vec<u32>> {
        let mut engine = engine(model, config());
        for first in [1, 3] {
            engine.add(fixed(9, first, 20)).expect("the request is right");
        }
        engine.run_to_end().expect("the model runs").values().map(|outputs| outputs[0].ids()).collect()
    }
    let expected = answers(Scripted::new(VOCAB, MAX_LEN));
    assert_eq!(answers(overlapping()), expected);
    assert_ne!(answers(Misfed(overlapping())), expected);
}
