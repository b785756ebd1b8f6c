//! No bit of an answer depends on who else is served: random schedules on a model's kernels.
//!
//! A few for each model, and 280 in all with `WARPFOLD_ALL_TESTS`; `WARPFOLD_SCHEDULES` says
//! how many.

use std::path::Path;

use warpfold::{Device, Profile, Queue};
use warpfold_engine::{
    Allocator, Batch, CacheShape, Config, DraftModel, Engine, Limits, Model, ModelError, Moves, Output, Policy,
    Pooling, Preemption, Request, Sampled, Sampling, Speculation, philox,
};
use warpfold_models::{LanguageModel, ModelFiles};

fn model(name: &str) -> LanguageModel {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/models").join(name);
    let files = ModelFiles::open(&folder).expect("the files are right").verified();
    files.load(&Queue::of(&Device::virtual_gpu(Profile::H200)), files.dtype(), &mut |_, _| ()).expect("weights")
}

/// Random numbers below bounds.
struct Draws(u64, u32);

impl Draws {
    fn below(&mut self, bound: usize) -> usize {
        self.1 += 1;
        philox(self.0, [self.1, 0, 0, 9])[0] as usize % bound
    }

    fn one_of<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }
}

/// How many there are.
const REQUESTS: usize = 9;

/// Requests of every kind; some share a beginning.
fn requests() -> Vec<Request> {
    let shared: Vec<u32> = (20..43).collect();
    let prompt = |len: u32, seed: u32| (0..len).map(|i| (i * 37 + seed * 11) % 280 + 2).collect::<Vec<_>>();
    let drawn = |prompt: Vec<u32>, max_tokens| Request {
        max_tokens: Some(max_tokens),
        ignore_eos: true,
        logprobs: Some(2),
        seed: Some(77),
        ..Request::new(prompt)
    };
    let with = |more: &[u32]| [&shared[..], more].concat();
    vec![
        drawn(prompt(3, 1), 9),
        Request { sampling: Sampling::greedy(), ..drawn(prompt(31, 2), 6) },
        Request { n: 3, ..drawn(with(&[7]), 5) },
        Request { logprobs: None, ..drawn(prompt(5, 6), 5) },
        Request {
            sampling: Sampling { top_p: 0.8, frequency_penalty: 0.6, ..Sampling::default() },
            ..drawn(with(&[8, 9]), 7)
        },
        Request { sampling: Sampling { top_k: Some(9), min_p: 0.01, ..Sampling::default() }, ..drawn(prompt(1, 3), 8) },
        Request { sampling: Sampling { logit_bias: vec![(5, 3.0)], ..Sampling::greedy() }, ..drawn(prompt(17, 4), 4) },
        Request::embedding(with(&[7, 9]), Pooling::Last),
        Request::embedding(prompt(29, 5), Pooling::Mean),
    ]
}

/// A schedule: settings of the engine, and how many steps pass before each request comes.
fn schedule(seed: u64) -> (Config, Vec<usize>, bool) {
    let mut draws = Draws(seed, 0);
    let block_size = draws.one_of(&[1, 3, 4, 8, 16]);
    let config = Config {
        policy: draws.one_of(&Policy::ALL),
        allocator: draws.one_of(&[Allocator::Naive, Allocator::PrefixCaching]),
        block_size,
        num_blocks: draws.one_of(&[130, 200, 400]) / block_size + 4,
        num_host_blocks: draws.one_of(&[0, 300 / block_size + 2]),
        budget: draws.one_of(&[1, 2, 5, 16, 64, 8192]),
        max_seqs: draws.one_of(&[3, 4, 256]),
        preemption: draws.one_of(&[Preemption::Recompute, Preemption::Swap, Preemption::Auto]),
        max_len: Some(64),
        swap_above: draws.below(20),
        inject_preemptions: draws.one_of(&[0.0, 0.1, 0.5]),
        overlap: !seed.is_multiple_of(4),
        speculation: seed.is_multiple_of(3).then(Speculation::default),
        seed,
        check: true,
        ..Config::default()
    };
    // These run a prompt whole or not at all.
    let needs_whole = matches!(config.policy, Policy::Static | Policy::Orca | Policy::VllmV0);
    let budget = if needs_whole { config.budget.max(64) } else { config.budget };
    let can_swap = config.num_host_blocks > 0 || config.preemption != Preemption::Swap;
    let preemption = if can_swap { config.preemption } else { Preemption::Recompute };
    let config = Config { budget, preemption, ..config };
    let delays = (0..REQUESTS).map(|_| draws.below(5)).collect();
    (config, delays, draws.below(2) == 0)
}

fn answers<M: Model>(model: M, config: Config, delays: &[usize]) -> Vec<Vec<Output>> {
    answers_of(Engine::new(model, config).expect("the settings are right"), delays)
}

fn answers_of<M: Model>(mut engine: Engine<M>, delays: &[usize]) -> Vec<Vec<Output>> {
    let mut ids = Vec::new();
    let mut early: Vec<(warpfold_engine::RequestId, Vec<warpfold_engine::Update>)> = Vec::new();
    assert_eq!(requests().len(), delays.len(), "each request comes at some time");
    for (request, delay) in requests().into_iter().zip(delays) {
        for _ in 0..*delay {
            for update in engine.step().expect("the model runs") {
                let slot = early.iter_mut().find(|(id, _)| *id == update.request).expect("it was added");
                slot.1.push(update);
            }
        }
        let id = engine.add(request).expect("the request is right");
        early.push((id, Vec::new()));
        ids.push(id);
    }
    let mut rest = engine.run_to_end().expect("the model runs");
    early.into_iter().map(|(id, updates)| merged(updates, rest.remove(&id).unwrap_or_default())).collect()
}

/// What came before and after the last request was added, as whole answers.
fn merged(updates: Vec<warpfold_engine::Update>, rest: Vec<Output>) -> Vec<Output> {
    let num = updates.iter().map(|u| u.output + 1).chain([rest.len()]).max().unwrap_or(0);
    let mut outputs: Vec<Output> = (0..num).map(|_| Output::default()).collect();
    for update in updates {
        let output = &mut outputs[update.output];
        output.tokens.extend(update.tokens);
        output.embedding.extend(update.embedding);
    }
    for (output, rest) in outputs.iter_mut().zip(rest) {
        output.tokens.extend(rest.tokens);
        output.embedding.extend(rest.embedding);
    }
    outputs
}

/// Tokens and the bits of their log-probabilities, or those of embeddings.
fn bits(answers: &[Vec<Output>]) -> Vec<Vec<(u32, u32)>> {
    let of = |sampled: &Sampled| {
        let own = (sampled.token, sampled.logprob.to_bits());
        std::iter::once(own).chain(sampled.top.iter().map(|(id, x)| (*id, x.to_bits()))).collect::<Vec<_>>()
    };
    let of_one = |output: &Output| {
        let embedding = output.embedding.iter().map(|x| (0, x.to_bits()));
        output.tokens.iter().flat_map(of).chain(embedding).collect()
    };
    answers.iter().flatten().map(of_one).collect()
}

fn num_schedules(few: u64) -> u64 {
    let few = if std::env::var_os("WARPFOLD_ALL_TESTS").is_some() { 20 * few } else { few };
    std::env::var("WARPFOLD_SCHEDULES").ok().and_then(|num| num.parse().ok()).unwrap_or(few)
}

#[track_caller]
fn is_invariant(name: &str, few: u64) {
    let config = Config { block_size: 4, num_blocks: 400, overlap: false, ..Config::default() };
    let expected = bits(&answers(model(name), config, &[0; REQUESTS]));
    assert_eq!(expected.len(), REQUESTS + 2, "three of the answers are of one request");
    for seed in 0..num_schedules(few) {
        let (config, delays, has_graphs) = schedule(seed);
        let model = if has_graphs { model(name) } else { model(name).without_graphs() };
        // States are neither swapped nor guessed for.
        let has_state = model.limits().state_bytes > 0;
        let config = match has_state {
            true => Config { num_host_blocks: 0, preemption: Preemption::Recompute, speculation: None, ..config },
            false => config,
        };
        let mut engine = Engine::new(model, config.clone()).expect("the settings are right");
        // Of those that guess, some do it by a model: another one, or the same.
        let drafts_by = match seed % 9 {
            _ if has_state => None,
            3 => Some("llama"),
            6 => Some(name),
            _ => None,
        };
        if let Some(name) = drafts_by {
            let drafter = DraftModel::new(self::model(name), 90, 4, 4).expect("the settings are right");
            engine = engine.with_drafter(drafter);
        }
        let found = bits(&answers_of(engine, &delays));
        assert!(found == expected, "{name}, schedule {seed}: {delays:?}, graphs {has_graphs}, {config:?}");
    }
}

#[test]
fn answers_of_qwen3_have_the_same_bits_under_random_schedules() {
    is_invariant("qwen3", 8);
}

#[test]
fn answers_of_a_mixture_of_experts_have_the_same_bits_under_random_schedules() {
    is_invariant("qwen3_moe", 3);
}

#[test]
fn answers_of_delta_nets_have_the_same_bits_under_random_schedules() {
    is_invariant("qwen3_next", 6);
    is_invariant("qwen3_5", 3);
}

#[test]
fn answers_of_gemma3_have_the_same_bits_under_random_schedules() {
    is_invariant("gemma3", 3);
}

#[test]
fn a_step_runs_what_the_step_before_draws_before_the_host_knows_it() {
    let greedy = |first: u32, max_tokens| Request {
        ignore_eos: true,
        logprobs: Some(3),
        ..Request::greedy((first..first + 9).collect(), max_tokens)
    };
    let run = |overlap, budget| {
        let config = Config { block_size: 4, num_blocks: 100, budget, overlap, ..Config::default() };
        let mut engine = Engine::new(model("qwen3"), config).expect("the settings are right");
        for i in 0..5 {
            engine.add(greedy(20 + 7 * i, 4 + 3 * i as usize)).expect("the request is right");
        }
        let answers = engine.run_to_end().expect("the model runs");
        (bits(&answers.into_values().collect::<Vec<_>>()), engine.metrics().overlapped_steps)
    };
    let (expected, alone) = run(false, 8192);
    assert_eq!(alone, 0);
    // Steps that decode alone, captured as graphs, and steps with parts of prompts among them.
    for budget in [8192, 7] {
        let (found, overlapped) = run(true, budget);
        assert!(found == expected, "budget {budget}");
        assert!(overlapped > 10, "budget {budget}: {overlapped} steps");
    }
}

/// A model one of whose kernels adds in another order where a batch has more than one row: the last
/// bit of a log-probability is another one.
struct BatchDependent(LanguageModel);

impl Model for BatchDependent {
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
        let mut answers = self.0.step(batch)?;
        if batch.num_rows() > 1 {
            answers.iter_mut().for_each(|a| a.logprob = f32::from_bits(a.logprob.to_bits() ^ 1));
        }
        Ok(answers)
    }
}

#[test]
fn one_bit_that_depends_on_the_batch_is_noticed() {
    let run = |seed| {
        let (config, delays, _) = schedule(seed);
        bits(&answers(BatchDependent(model("qwen3")), config, &delays))
    };
    let first = run(0);
    assert!((1..6).any(|seed| run(seed) != first));
}
