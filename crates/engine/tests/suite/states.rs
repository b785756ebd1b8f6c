//! Models that keep a state of a sequence as a whole: what they are handed, and what is refused.

use std::collections::HashMap;

use super::{MAX_LEN, VOCAB};
use warpfold_engine::scripted::Scripted;
use warpfold_engine::{
    Allocator, Batch, Beam, CacheShape, Config, DraftModel, Engine, Limits, Model, ModelError, Moves, Policy, Request,
    Sampled, SequenceId, Ticket,
};

/// A model that goes on from the state in a place, whosever it is: it fails unless that is the
/// sequence's own, one row before.
#[derive(Debug)]
struct Stateful {
    model: Scripted,
    places: usize,
    states: HashMap<u32, (SequenceId, u32)>,
}

impl Stateful {
    fn new(model: Scripted) -> Self {
        Self { model, places: 0, states: HashMap::new() }
    }

    fn check(&mut self, batch: &Batch) -> Result<(), ModelError> {
        if batch.states.len() != batch.sequences.len() || !batch.cu_q.is_sorted() {
            return Err("a sequence has no place".into());
        }
        for (i, (place, id)) in batch.states.iter().zip(&batch.sequences).enumerate() {
            for row in batch.cu_q[i]..batch.cu_q[i + 1] {
                let position = batch.positions[row as usize];
                let goes_on = self.states.get(place) == Some(&(*id, position.wrapping_sub(1)));
                if *place as usize >= self.places || position > 0 && !goes_on {
                    return Err(format!("place {place} is not that of {id} before {position}").into());
                }
                self.states.insert(*place, (*id, position));
            }
        }
        Ok(())
    }
}

impl Model for Stateful {
    fn limits(&self) -> Limits {
        Limits { state_bytes: 8, ..self.model.limits() }
    }

    fn allocate(&mut self, cache: CacheShape) -> Result<(), ModelError> {
        self.places = cache.num_states;
        self.model.allocate(cache)
    }

    fn copy(&mut self, moves: &Moves) -> Result<(), ModelError> {
        if *moves == Moves::default() { Ok(()) } else { Err("blocks have no copy of a state".into()) }
    }

    fn step(&mut self, batch: &Batch) -> Result<Vec<Sampled>, ModelError> {
        self.check(batch)?;
        self.model.step(batch)
    }

    fn overlaps(&self) -> bool {
        self.model.overlaps()
    }

    fn submit(&mut self, batch: &Batch) -> Result<Ticket, ModelError> {
        self.check(batch)?;
        self.model.submit(batch)
    }

    fn wait(&mut self, ticket: Ticket) -> Result<Vec<Sampled>, ModelError> {
        self.model.wait(ticket)
    }
}

fn requests() -> impl Iterator<Item = Request> {
    (0..24).map(|i| Request {
        seed: Some(i),
        n: 1 + (i % 3) as usize,
        max_tokens: Some(5 + (7 * i % 20) as usize),
        prompt_logprobs: (i % 5 == 0).then_some(0),
        // Half of them begin alike: nobody may start from what another one has computed.
        ..Request::new((0..9 + 3 * (i as u32 % 7)).map(|t| 1 + (t + i as u32 % 2) % 40).collect())
    })
}

fn answers<M: Model>(model: M, config: &Config) -> Vec<Vec<Vec<u32>>> {
    let mut engine = Engine::new(model, config.clone()).expect("the settings are right");
    for request in requests() {
        engine.add(request).expect("the request is right");
    }
    let answers = engine.run_to_end().expect("each sequence goes on from its own state");
    answers.values().map(|outputs| outputs.iter().map(warpfold_engine::Output::ids).collect()).collect()
}

#[test]
fn each_sequence_goes_on_from_its_own_state_under_every_policy() {
    let plain = Config { block_size: 4, num_blocks: 400, ..Config::default() };
    let expected = answers(Scripted::new(VOCAB, MAX_LEN), &plain);
    for policy in Policy::ALL {
        for allocator in [Allocator::PrefixCaching, Allocator::Naive, Allocator::Contiguous, Allocator::Unshared] {
            for is_overlapping in [false, true] {
                let model = Scripted::new(VOCAB, MAX_LEN);
                let model = Stateful::new(if is_overlapping { model.overlapping() } else { model });
                // Few blocks and seats, so that some are preempted and places change hands.
                let config = Config {
                    policy,
                    allocator,
                    block_size: 4,
                    num_blocks: 48,
                    max_seqs: 5,
                    budget: if policy == Policy::Continuous { 11 } else { 500 },
                    inject_preemptions: 0.05,
                    seed: 3,
                    ..Config::default()
                };
                assert!(answers(model, &config) == expected, "{policy:?} {allocator:?} {is_overlapping}");
            }
        }
    }
}

#[test]
fn beams_and_drafts_of_models_with_a_state_are_refused() {
    let config = Config { num_blocks: 64, ..Config::default() };
    let mut engine = Engine::new(Stateful::new(Scripted::new(VOCAB, MAX_LEN)), config).expect("the settings are right");
    let beam = Some(Beam { width: 2, length_penalty: 1.0 });
    let error = engine.add(Request { beam, ..Request::new(vec![1, 2]) }).expect_err("beams fork states").to_string();
    assert!(error.contains("beam") && error.contains("state"), "{error}");
    let error = DraftModel::new(Stateful::new(Scripted::new(VOCAB, MAX_LEN)), 32, 16, 8).expect_err("no way back");
    assert!(error.to_string().starts_with("--draft"), "{error}");
}
