//! What the tests share: engines, requests, and a run under the invariants.

mod answers;
mod blocks;
mod constraint;
mod failures;
mod invariance;
mod ladder;
mod limits;
mod overlap;
mod policies;
mod pooling;
mod service;
mod states;
mod walkthrough;

use std::collections::BTreeMap;

use warpfold_engine::scripted::Scripted;
use warpfold_engine::{Config, Engine, Output, Request, RequestId, StepTrace};

pub(crate) const VOCAB: usize = 50;
pub(crate) const MAX_LEN: usize = 96;

/// Small blocks, all checks, a trace.
pub(crate) fn small() -> Config {
    Config { block_size: 4, num_blocks: 64, budget: 128, max_seqs: 16, check: true, trace: true, ..Config::default() }
}

#[track_caller]
pub(crate) fn engine(config: Config) -> Engine<Scripted> {
    Engine::new(Scripted::new(VOCAB, MAX_LEN), config).expect("the settings are right")
}

/// A greedy request that runs to its length.
pub(crate) fn fixed(prompt_len: u32, first: u32, new: usize) -> Request {
    let prompt = (0..prompt_len).map(|i| (first + i * 7) % VOCAB as u32).collect();
    Request { ignore_eos: true, ..Request::greedy(prompt, new) }
}

/// The answers to requests, in their order, and the trace of each step.
#[track_caller]
pub(crate) fn run(engine: &mut Engine<Scripted>, requests: Vec<Request>) -> (Vec<Vec<Output>>, Vec<StepTrace>) {
    let ids: Vec<_> = requests.into_iter().map(|r| engine.add(r).expect("the request is right")).collect();
    let mut answers: BTreeMap<RequestId, Vec<Output>> = BTreeMap::new();
    let mut traces = Vec::new();
    while !engine.is_idle() {
        for update in engine.step().expect("the model runs") {
            let outputs = answers.entry(update.request).or_default();
            outputs.resize(outputs.len().max(update.output + 1), Output::default());
            outputs[update.output].extend(update);
        }
        traces.extend(engine.trace().cloned());
        assert!(traces.len() < 20_000, "the engine makes no progress:\n{}", traces[traces.len() - 1]);
    }
    is_empty(&*engine);
    (ids.iter().map(|id| answers.remove(id).unwrap_or_default()).collect(), traces)
}

/// Nothing is held once all requests have ended.
#[track_caller]
pub(crate) fn is_empty(engine: &Engine<Scripted>) {
    engine.check_invariants();
    let now = engine.metrics().now;
    assert_eq!((now.used_blocks, now.used_host_blocks, now.running, now.waiting, now.swapped), (0, 0, 0, 0, 0));
}
