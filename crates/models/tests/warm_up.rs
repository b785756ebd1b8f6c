//! What is done before the first request: kernels are compiled, and steps captured.

use std::path::Path;
use std::time::Duration;

use warpfold::{Device, Profile, Queue};
use warpfold_engine::{Config, Engine, Model, Output, Request, Sampling};
use warpfold_models::{LanguageModel, ModelFiles, Steps};

const STEPS: Steps = Steps { budget: 48, max_seqs: 9, longest: 96, block_size: 8 };

fn files(name: &str) -> ModelFiles {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/models").join(name);
    ModelFiles::open(&folder).expect("the files are right")
}

fn load(files: &ModelFiles, queue: &Queue) -> LanguageModel {
    files.load(queue, files.dtype(), &mut |_, _| ()).expect("there is room")
}

/// Answers to requests of every kind, more than run at a time.
fn answers(model: impl Model) -> Vec<Output> {
    let config = Config {
        num_blocks: 120,
        block_size: STEPS.block_size,
        budget: STEPS.budget,
        max_seqs: STEPS.max_seqs,
        max_len: Some(STEPS.longest),
        ..Config::default()
    };
    let mut engine = Engine::new(model, config).expect("the settings are right");
    let prompt = |len: u32, seed: u32| (0..len).map(|i| (i * 37 + seed * 11) % 280 + 2).collect::<Vec<_>>();
    let drawn = |len, seed, max_tokens| Request {
        max_tokens: Some(max_tokens),
        ignore_eos: true,
        seed: Some(7),
        ..Request::new(prompt(len, seed))
    };
    let mut requests = vec![
        Request { sampling: Sampling::greedy(), ..drawn(70, 2, 20) },
        Request { n: 3, ..drawn(9, 3, 5) },
        Request { sampling: Sampling { top_p: 0.8, ..Sampling::default() }, ..drawn(33, 4, 7) },
        Request { sampling: Sampling { logit_bias: vec![(5, 3.0)], ..Sampling::greedy() }, ..drawn(17, 5, 4) },
        Request { logprobs: Some(3), sampling: Sampling { top_k: Some(9), ..Sampling::default() }, ..drawn(1, 6, 8) },
    ];
    requests.extend((7..17).map(|seed| drawn(seed, seed, 3 + seed as usize % 5)));
    let ids: Vec<_> = requests.into_iter().map(|r| engine.add(r).expect("the request is right")).collect();
    let mut answers = engine.run_to_end().expect("the model runs");
    ids.into_iter().flat_map(|id| answers.remove(&id).expect("an answer")).collect()
}

#[track_caller]
fn compiles_nothing_more(name: &str) {
    let device = Device::virtual_gpu(Profile::H200);
    let (files, queue) = (files(name), Queue::of(&device));
    let warm_up = files.warm_up(&queue, files.dtype(), STEPS).expect("every step can be planned");
    let warmed = warm_up.finish().expect("every kernel compiles");
    assert_eq!((device.allocated_bytes(), device.kernel_counts().loaded), (0, warmed.kernels as u64));
    let model = load(&files, &queue);
    answers(model);
    // The one that fills the memory of the first draws belongs to no step.
    assert_eq!(device.kernel_counts().built, warmed.kernels as u64 + 1, "{name}");
}

#[test]
fn after_the_warm_up_a_job_of_a_qwen3_compiles_no_kernel() {
    compiles_nothing_more("qwen3");
}

#[test]
fn after_the_warm_up_a_job_of_delta_nets_compiles_no_kernel() {
    compiles_nothing_more("qwen3_next");
}

#[test]
fn after_the_warm_up_a_job_of_a_gemma3_compiles_no_kernel() {
    compiles_nothing_more("gemma3");
}

#[test]
fn after_the_warm_up_a_job_of_a_qwen3_moe_compiles_no_kernel() {
    compiles_nothing_more("qwen3_moe");
}

#[test]
fn after_the_warm_up_a_job_of_a_qwen2_compiles_no_kernel() {
    compiles_nothing_more("qwen2");
}

#[track_caller]
fn several_compile_nothing_more(name: &str, num_devices: usize) {
    let devices = Device::virtual_peers(Profile::H200, num_devices);
    let files = files(name);
    let warm_up = files.warm_up_parallel(&devices, files.dtype(), STEPS).expect("every step can be planned");
    let warmed = warm_up.finish().expect("every kernel compiles").kernels as u64;
    let loaded = || devices.iter().map(|device| device.kernel_counts().loaded);
    assert_eq!(loaded().sum::<u64>(), warmed);
    assert!(devices.iter().all(|device| device.allocated_bytes() == 0));
    let before: Vec<u64> = loaded().collect();
    answers(files.load_parallel(&devices, files.dtype(), &mut |_, _| ()).expect("there is room"));
    // What fills memory, and what devices do together: sums of parts with a residual, and signals.
    let together: Vec<u64> = loaded().zip(before).map(|(after, before)| after - before).collect();
    assert!(together.iter().all(|kernels| *kernels <= 6), "{name}: {together:?} of {warmed}");
}

#[test]
fn after_the_warm_up_a_job_on_two_devices_compiles_only_what_they_do_together() {
    several_compile_nothing_more("llama", 2);
    several_compile_nothing_more("gemma3", 2);
}

#[test]
fn a_warm_up_for_more_devices_than_can_share_the_model_is_refused() {
    let devices = Device::virtual_peers(Profile::H200, 8);
    let files = files("llama");
    let error = files.warm_up_parallel(&devices, files.dtype(), STEPS).expect_err("it has four heads").to_string();
    assert!(error.contains("8 devices cannot share the model"), "{error}");
}

#[test]
fn a_warm_up_for_short_sequences_compiles_less_than_one_for_long_ones() {
    let kernels = |steps| {
        let (files, queue) = (files("llama"), Queue::of(&Device::virtual_gpu(Profile::H200)));
        files.warm_up(&queue, files.dtype(), steps).and_then(|all| all.finish()).expect("it compiles").kernels
    };
    assert!(kernels(Steps { budget: 8, max_seqs: 1, longest: 8, ..STEPS }) < kernels(STEPS));
}

#[test]
fn steps_that_were_captured_before_any_request_answer_as_those_that_run_launch_by_launch() {
    let (files, queue) = (files("qwen3"), Queue::of(&Device::virtual_gpu(Profile::H200)));
    let mut ahead = load(&files, &queue);
    ahead.capture_ahead(STEPS.max_seqs, Duration::MAX);
    let mut engine =
        Engine::new(ahead, Config { num_blocks: 40, ..Config::default() }).expect("the settings are right");
    // Of 16, 8, 4, 2 and 1 rows: no sequence has more than 16 blocks.
    assert_eq!(engine.model().num_captured(), 5);
    let request = || Request { logprobs: Some(2), seed: Some(3), ..Request::greedy(vec![5, 80, 7], 6) };
    let id = engine.add(request()).expect("the request is right");
    let answered = engine.run_to_end().expect("the model runs").remove(&id);
    assert_eq!(engine.model().num_captured(), 5);
    let mut plain = Engine::new(load(&files, &queue).without_graphs(), Config { num_blocks: 40, ..Config::default() })
        .expect("the settings are right");
    let id = plain.add(request()).expect("the request is right");
    assert_eq!(answered, plain.run_to_end().expect("the model runs").remove(&id));
}

#[test]
fn nothing_is_captured_ahead_once_the_time_is_over() {
    let (files, queue) = (files("qwen3"), Queue::of(&Device::virtual_gpu(Profile::H200)));
    let mut model = load(&files, &queue);
    model.capture_ahead(STEPS.max_seqs, Duration::ZERO);
    let engine = Engine::new(model, Config { num_blocks: 40, ..Config::default() }).expect("the settings are right");
    assert_eq!(engine.model().num_captured(), 0);
}
