//! Constraints: what may be drawn, how an answer ends, and that schedules change nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use warpfold_engine::scripted::Scripted;
use warpfold_engine::{Batch, CacheShape, Limits, Model, ModelError, Moves, Sampled};
use warpfold_engine::{Beam, Config, Constraint, Engine, Finish, Next, Policy, Request, Sampling, Speculation};

/// Tokens of which each is more than the one before, up to a last one.
#[derive(Debug, Clone)]
struct Rising {
    from: u32,
    last: u32,
}

impl Constraint for Rising {
    fn next(&mut self, vocab: usize) -> Next {
        let mut bits = vec![0; vocab.div_ceil(32)];
        (self.from..=self.last).for_each(|id| bits[id as usize / 32] |= 1 << (id % 32));
        Next::Tokens(bits)
    }

    fn is_over(&self) -> bool {
        self.from > self.last
    }

    fn push(&mut self, token: u32) {
        self.from = token + 1;
    }

    fn fork(&self) -> Box<dyn Constraint> {
        Box::new(self.clone())
    }
}

/// Gives up after its first token.
#[derive(Debug, Clone)]
struct Fails(bool);

impl Constraint for Fails {
    fn next(&mut self, vocab: usize) -> Next {
        if self.0 { Next::Failed } else { Next::Tokens(vec![!0; vocab.div_ceil(32)]) }
    }

    fn is_over(&self) -> bool {
        false
    }

    fn push(&mut self, _token: u32) {
        self.0 = true;
    }

    fn fork(&self) -> Box<dyn Constraint> {
        Box::new(self.clone())
    }
}

fn rising(first: u32, last: u32) -> Request {
    let sampling = Sampling { temperature: 2.0, ..Sampling::default() };
    let constraint: Option<Box<dyn Constraint>> = Some(Box::new(Rising { from: first, last }));
    Request { n: 3, seed: Some(5), ignore_eos: true, sampling, constraint, ..Request::new(vec![1, 2, 3]) }
}

fn answers(config: Config, request: Request) -> Vec<(Vec<u32>, Option<Finish>)> {
    let mut engine = Engine::new(Scripted::new(100, 128), config).unwrap();
    let other = Request { seed: Some(1), ..Request::new(vec![7; 30]) };
    engine.add(Request { max_tokens: Some(9), ..other }).unwrap();
    let id = engine.add(request).unwrap();
    let outputs = engine.run_to_end().unwrap().remove(&id).unwrap();
    outputs.into_iter().map(|output| (output.ids(), output.finish)).collect()
}

#[test]
fn tokens_are_drawn_from_what_may_come_and_the_answer_ends_when_nothing_may() {
    // Few tokens are a list of those that may come, many a list of the others.
    for (first, last) in [(40, 60), (3, 97)] {
        for (ids, finish) in answers(Config::default(), rising(first, last)) {
            assert!(ids[0] >= first && ids.is_sorted_by(|a, b| a < b) && ids.last() == Some(&last), "{ids:?}");
            assert_eq!(finish, Some(Finish::Constraint));
        }
    }
}

#[test]
fn no_schedule_changes_what_a_constraint_lets_through() {
    let plain = Config { num_blocks: 64, block_size: 4, budget: 32, ..Config::default() };
    let expected = answers(plain.clone(), rising(3, 97));
    assert!(expected[0] != expected[1], "seeds differ");
    let speculation = Some(Speculation { min_match: 1, max_match: 2, num_drafts: 3 });
    for config in [
        Config { policy: Policy::VllmV0, budget: 128, inject_preemptions: 0.5, ..plain.clone() },
        Config { policy: Policy::Static, budget: 128, ..plain.clone() },
        Config { speculation, ..plain.clone() },
        Config { kv_cache: false, allocator: warpfold_engine::Allocator::Contiguous, budget: 512, ..plain },
    ] {
        assert_eq!(answers(config.clone(), rising(3, 97)), expected, "{config:?}");
    }
}

#[test]
fn a_constraint_that_gives_up_ends_the_answer_as_an_error() {
    let request = Request { n: 2, constraint: Some(Box::new(Fails(false))), ..Request::greedy(vec![1], 8) };
    for (ids, finish) in answers(Config::default(), request) {
        assert_eq!((ids.len(), finish.map(Finish::name)), (1, Some("error")));
    }
}

#[test]
fn what_does_not_go_with_a_constraint_is_refused() {
    let mut engine = Engine::new(Scripted::new(100, 128), Config::default()).unwrap();
    let mut refused = |request: Request| engine.add(request).unwrap_err().to_string();
    let base = || Request { n: 1, ..rising(3, 97) };
    let beam = Request { beam: Some(Beam { width: 2, length_penalty: 1.0 }), sampling: Sampling::greedy(), ..base() };
    assert!(refused(beam).starts_with("beam"));
    assert!(refused(Request { min_tokens: 2, ..base() }).starts_with("min_tokens"));
    let sampling = Sampling { allowed_ids: Some(vec![4]), ..Sampling::default() };
    assert!(refused(Request { sampling, ..base() }).starts_with("allowed_token_ids"));
    assert_eq!(refused(rising(9, 8)), "constraint: no token of the vocabulary may come first");
}

/// Anything, and how often it was asked.
#[derive(Debug, Clone)]
struct Counted(Arc<AtomicUsize>);

impl Constraint for Counted {
    fn next(&mut self, vocab: usize) -> Next {
        self.0.fetch_add(1, Ordering::Relaxed);
        Next::Tokens(vec![!0; vocab.div_ceil(32)])
    }

    fn is_over(&self) -> bool {
        false
    }

    fn push(&mut self, _token: u32) {}

    fn fork(&self) -> Box<dyn Constraint> {
        Box::new(self.clone())
    }
}

/// Scripted, and notes how many masks there were when a step began, and when it asked for all.
struct Asks(Scripted, Arc<AtomicUsize>, Vec<[usize; 2]>);

impl Model for Asks {
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
        let before = self.1.load(Ordering::Relaxed);
        batch.make_masks(3);
        self.2.push([before, self.1.load(Ordering::Relaxed)]);
        self.0.step(batch)
    }
}

#[test]
fn masks_are_made_once_the_model_has_the_step() {
    let counter = Arc::new(AtomicUsize::new(0));
    let mut engine =
        Engine::new(Asks(Scripted::new(100, 128), counter.clone(), Vec::new()), Config::default()).unwrap();
    for seed in 0..8 {
        let constraint: Option<Box<dyn Constraint>> = Some(Box::new(Counted(counter.clone())));
        engine.add(Request { constraint, seed: Some(seed), ..Request::greedy(vec![1], 3) }).unwrap();
    }
    engine.run_to_end().unwrap();
    // Whether anything may come first is known when a request is taken.
    assert_eq!(engine.model().2, [[8, 8], [8, 16], [16, 24]]);
}
