//! The promise: no schedule changes an answer, nor a bit of its logprobs.

use std::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::{Config as Runs, TestCaseError, TestError, TestRunner};
use warpfold_engine::scripted::Scripted;
use warpfold_engine::{
    Allocator, Beam, Config, Engine, ErrorKind, Metrics, Output, Policy, Pooling, Preemption, Request, RequestId,
    Sampling, Speculation,
};

use super::{MAX_LEN, VOCAB};

/// Requests with the step in which they arrive, and one that is given up later.
#[derive(Debug, Clone)]
struct Job {
    requests: Vec<(usize, Request)>,
    aborted: Option<(usize, usize)>,
}

fn sampling() -> impl Strategy<Value = Sampling> {
    let knobs =
        (0..3_u8, prop::option::of(1..20_u32), prop_oneof![Just(1.0_f32), 0.3..1.0_f32], 0..2_u8, any::<bool>());
    knobs.prop_map(|(temperature, top_k, top_p, penalties, is_narrow)| Sampling {
        temperature: f32::from(temperature) * 0.7,
        top_k,
        top_p,
        frequency_penalty: f32::from(penalties) * 0.5,
        repetition_penalty: 1.0 + f32::from(penalties) * 0.2,
        // Two tokens repeat often enough for guesses to be right.
        allowed_ids: is_narrow.then(|| vec![1, 2]),
        ..Sampling::default()
    })
}

fn request() -> impl Strategy<Value = Request> {
    // Prompts from three beginnings, so that prefixes are shared.
    let prompt = (0..3_u32, 1..40_u32, 0..3_u32).prop_map(|(first, len, last)| {
        let token = |i: u32| if i + 1 == len { last } else { (first + i * 7) % VOCAB as u32 };
        (0..len).map(token).collect::<Vec<_>>()
    });
    let shape = (1..24_usize, 1..4_usize, 0..6_u8, any::<bool>(), -1..2_i32, 0..3_usize, any::<bool>());
    (prompt, sampling(), 0..1000_u64, shape).prop_map(|(prompt, sampling, seed, shape)| {
        let (new, n, kind, ignore_eos, priority, min_tokens, scores) = shape;
        if kind == 5 {
            let (_, pooling) = Pooling::NAMES[new % 3];
            return Request { priority: priority.into(), seed: Some(seed), ..Request::embedding(prompt, pooling) };
        }
        let beam = (kind == 0).then_some(Beam { width: n, length_penalty: 1.0 });
        Request {
            n: if kind < 3 { n } else { 1 },
            sampling: if beam.is_some() { Sampling::greedy() } else { sampling },
            seed: Some(seed),
            max_tokens: Some(new),
            min_tokens: min_tokens.min(new),
            stop_ids: vec![5, 6],
            logprobs: beam.is_none().then_some(2),
            prompt_logprobs: scores.then_some(1),
            beam,
            ignore_eos,
            priority: priority.into(),
            ..Request::new(prompt)
        }
    })
}

fn job() -> impl Strategy<Value = Job> {
    let requests = prop::collection::vec((0..12_usize, request()), 1..9);
    (requests, prop::option::of((0..9_usize, 0..40_usize))).prop_map(|(requests, aborted)| Job { requests, aborted })
}

fn schedule() -> impl Strategy<Value = Config> {
    let preemption = prop_oneof![Just(Preemption::Auto), Just(Preemption::Recompute), Just(Preemption::Swap)];
    let allocator = prop_oneof![
        1 => Just(Allocator::Contiguous), 2 => Just(Allocator::Naive), 3 => Just(Allocator::PrefixCaching)
    ];
    let budget = prop_oneof![1..16_usize, 16..200_usize, Just(8192)];
    let sizes = (budget, prop_oneof![Just(1_usize), Just(4), Just(16)], 1..90_usize, 0..60_usize, 3..12_usize);
    let chance = prop_oneof![3 => Just(0.0), 1 => Just(0.5), 1 => Just(1.0), 1 => 0.0..1.0_f64];
    (prop::sample::select(&Policy::ALL[..]), allocator, preemption, sizes, chance, any::<bool>(), 0..100_u64).prop_map(
        |(policy, allocator, preemption, sizes, inject_preemptions, guesses, seed)| {
            let (budget, block_size, slots, host, max_seqs) = sizes;
            let whole = policy != Policy::Continuous;
            Config {
                policy,
                allocator,
                preemption: if host == 0 { Preemption::Recompute } else { preemption },
                budget: if whole { budget.max(MAX_LEN) } else { budget },
                block_size,
                num_blocks: slots.div_ceil(block_size),
                num_host_blocks: host,
                max_seqs,
                inject_preemptions,
                speculation: guesses.then(Speculation::default),
                seed,
                check: true,
                ..Config::default()
            }
        },
    )
}

/// The settings with blocks enough for each request alone.
fn with_room(mut config: Config, job: &Job) -> Config {
    config.num_blocks = config.num_blocks.max(3);
    for (_, request) in &job.requests {
        let mut probe = Engine::new(Scripted::new(VOCAB, MAX_LEN), config.clone()).expect("the settings are right");
        if let Err(e) = probe.add(request.clone())
            && let ErrorKind::TooLarge { need, .. } = e.kind()
        {
            config.num_blocks = need + need / 50 + 1;
        }
    }
    config
}

/// What each request answers, beams left out where blocks cannot be shared; nothing for one that
/// was given up.
fn answers(model: Scripted, job: &Job, config: &Config, seen: &mut Seen) -> Vec<Option<Vec<Output>>> {
    let mut engine = Engine::new(model, config.clone()).expect("the settings are right");
    let mut ids: Vec<Option<RequestId>> = vec![None; job.requests.len()];
    let mut answers: Vec<Option<Vec<Output>>> = vec![None; job.requests.len()];
    for step in 0.. {
        for (i, (arrival, request)) in job.requests.iter().enumerate() {
            let can_run = request.beam.is_none() || config.allocator != Allocator::Contiguous;
            if *arrival == step && can_run {
                ids[i] = Some(engine.add(request.clone()).expect("the request is right"));
            }
        }
        let aborted = job.aborted.filter(|(_, at)| *at == step).and_then(|(i, _)| *ids.get(i)?);
        aborted.into_iter().for_each(|id| assert!(engine.abort(id) || answers.iter().any(Option::is_some)));
        for update in engine.step().expect("the model runs") {
            let i = ids.iter().position(|id| *id == Some(update.request)).expect("it was added");
            let outputs = answers[i].get_or_insert_default();
            outputs.resize(outputs.len().max(update.output + 1), Output::default());
            outputs[update.output].extend(update);
        }
        if engine.is_idle() && step > 40 {
            break;
        }
        assert!(step < 60_000, "the engine makes no progress: {:?}", engine.metrics());
    }
    engine.step().expect("nothing is left to fail");
    engine.check_invariants();
    engine.clear_prefix_cache();
    let metrics = engine.metrics();
    let now = &metrics.now;
    assert_eq!((now.used_blocks, now.used_host_blocks, now.cached_blocks), (0, 0, 0), "nothing is left at the end");
    seen.add(&metrics, config);
    if let Some((i, _)) = job.aborted.filter(|(i, _)| *i < answers.len()) {
        answers[i] = None;
    }
    for (answer, (_, request)) in answers.iter_mut().zip(&job.requests) {
        if request.beam.is_some() && config.allocator == Allocator::Contiguous {
            *answer = None;
        }
    }
    answers
}

/// What happened in all schedules together, so that the test cannot pass for want of events.
#[derive(Debug, Default, Clone, Copy)]
struct Seen {
    recomputed: u64,
    swapped: u64,
    recomputed_for_room: u64,
    swapped_for_room: u64,
    copied: u64,
    hits: u64,
    accepted: u64,
    padding: u64,
    aborted: u64,
    overlapped: u64,
    discarded: u64,
}

impl Seen {
    fn add(&mut self, metrics: &Metrics, config: &Config) {
        self.recomputed += metrics.preempted_by_recompute;
        self.swapped += metrics.preempted_by_swap;
        if config.inject_preemptions == 0.0 {
            self.recomputed_for_room += metrics.preempted_by_recompute;
            self.swapped_for_room += metrics.preempted_by_swap;
        }
        self.copied += metrics.copied_blocks;
        self.hits += metrics.prefix_hits;
        self.accepted += metrics.accepted_drafts;
        self.padding += metrics.padding_rows;
        self.aborted += metrics.aborted;
        self.overlapped += metrics.overlapped_steps;
        self.discarded += metrics.discarded_tokens;
    }
}

/// Each request alone, its prompt in one piece.
fn alone(model: &Scripted, job: &Job) -> Vec<Vec<Output>> {
    let config = Config { block_size: 8, num_blocks: 64, check: true, ..Config::default() };
    let of_one = |(_, request): &(usize, Request)| {
        let mut engine = Engine::new(model.clone(), config.clone()).expect("the settings are right");
        engine.add(request.clone()).expect("the request is right");
        engine.run_to_end().expect("the model runs").into_values().next().expect("there is an answer")
    };
    job.requests.iter().map(of_one).collect()
}

/// Whether a random schedule with `model` gives another answer to a request of a random job than
/// `judge` gives to the request alone, in `cases` tries.
fn look_for_a_difference(
    judge: &Scripted,
    model: &Scripted,
    cases: u32,
) -> Result<Seen, Box<TestError<(Job, Config)>>> {
    let seen = Cell::new(Seen::default());
    let mut runner = TestRunner::new(Runs { cases, failure_persistence: None, ..Runs::default() });
    runner.run(&(job(), schedule()), |(job, config)| {
        let expected = alone(judge, &job);
        let config = with_room(config, &job);
        let mut all = seen.get();
        let got = answers(model.clone(), &job, &config, &mut all);
        seen.set(all);
        for (i, (expected, got)) in expected.iter().zip(&got).enumerate() {
            let is_same = got.as_ref().is_none_or(|got| got == expected);
            prop_assert!(is_same, "request {i}: alone {expected:?}, among others {got:?}");
        }
        Ok::<(), TestCaseError>(())
    })?;
    Ok(seen.get())
}

#[test]
fn no_schedule_changes_an_answer() {
    let model = Scripted::new(VOCAB, MAX_LEN);
    let seen = look_for_a_difference(&model, &model, 2_000).unwrap_or_else(|e| panic!("{e}"));
    let preempted = [seen.recomputed, seen.swapped, seen.recomputed_for_room, seen.swapped_for_room];
    let others = [seen.copied, seen.hits, seen.accepted, seen.padding, seen.aborted];
    assert!(preempted.iter().chain(&others).all(|n| *n > 100), "too little has happened: {seen:?}");
}

#[test]
fn no_schedule_changes_an_answer_when_steps_overlap() {
    let judge = Scripted::new(VOCAB, MAX_LEN);
    let seen = look_for_a_difference(&judge, &judge.clone().overlapping(), 4_000).unwrap_or_else(|e| panic!("{e}"));
    let preempted = [seen.recomputed, seen.swapped, seen.recomputed_for_room, seen.swapped_for_room];
    let others = [seen.copied, seen.hits, seen.padding, seen.aborted, seen.overlapped, seen.discarded];
    assert!(preempted.iter().chain(&others).all(|n| *n > 100), "too little has happened: {seen:?}");
}

#[test]
fn a_model_that_looks_at_its_batch_is_found_out() {
    let model = Scripted::batch_dependent(VOCAB, MAX_LEN);
    let found = look_for_a_difference(&model, &model, 50);
    assert!(matches!(found.map_err(|e| *e), Err(TestError::Fail(..))), "the test of invariance would pass anything");
}
