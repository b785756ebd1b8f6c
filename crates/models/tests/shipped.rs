//! The model that ships, against answers that numpy computed from its file; what its largest step
//! takes.

use std::path::Path;

use serde::Deserialize;
use serde_json::json;
use warpfold::{Device, Dtype, Profile, Queue};
use warpfold_engine::sizing::{Memory, Sizing};
use warpfold_engine::{Config, Engine, Model, Output, Request};
use warpfold_models::{ChatOptions, LanguageModel, ModelFiles, SHIPPED_OPENING};

#[derive(Deserialize)]
struct Golden {
    prompt: String,
    prompt_tokens: Vec<u32>,
    text: String,
    /// Token, logprob, and how much more likely it is than the next one.
    steps: Vec<(u32, f64, f64)>,
}

fn goldens() -> Vec<Golden> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("shipped/golden.json");
    let text = std::fs::read_to_string(path).expect("the file is there");
    serde_json::from_str(&text).expect("answers")
}

/// The virtual GPU, and a CUDA GPU where there is one.
fn devices() -> Vec<Device> {
    let mut devices = vec![Device::virtual_gpu(Profile::H200)];
    match Device::cuda(0) {
        Ok(device) => devices.push(device),
        Err(reason) => println!("on the virtual GPU alone: {reason}"),
    }
    devices
}

fn load(device: &Device, dtype: Dtype) -> LanguageModel {
    let files = ModelFiles::shipped().expect("the files are part of the program").verified();
    files.load(&Queue::of(device), dtype, &mut |done, all| assert!(done <= all)).expect("there is room")
}

fn answers(device: &Device, dtype: Dtype, requests: &[Request]) -> Vec<Output> {
    let config = Config { num_blocks: 32, ..Config::default() };
    let mut engine = Engine::new(load(device, dtype), config).expect("the settings are right");
    let ids: Vec<_> = requests.iter().map(|r| engine.add(r.clone()).expect("the request is right")).collect();
    let mut answers = engine.run_to_end().expect("the model runs");
    ids.into_iter().map(|id| answers.remove(&id).expect("an answer").remove(0)).collect()
}

#[test]
fn it_answers_as_numpy_does_on_every_device() {
    let goldens = goldens();
    let greedy = |g: &Golden| Request { logprobs: Some(0), ..Request::greedy(g.prompt_tokens.clone(), g.steps.len()) };
    let requests: Vec<Request> = goldens.iter().map(greedy).collect();
    for device in devices() {
        for (golden, answer) in goldens.iter().zip(answers(&device, Dtype::F32, &requests)) {
            let expected: Vec<u32> = golden.steps.iter().map(|step| step.0).collect();
            assert_eq!(answer.ids(), expected, "{device}: {:?}", golden.prompt);
            for (found, (_, logprob, _)) in answer.tokens.iter().zip(&golden.steps) {
                let off = (f64::from(found.logprob) - logprob).abs();
                assert!(off < 1e-4, "{device}: logprob {} of token {}, not {logprob}", found.logprob, found.token);
            }
        }
    }
}

#[test]
fn in_bf16_it_says_the_same_up_to_near_ties() {
    let goldens = goldens();
    let requests: Vec<Request> = goldens.iter().map(|g| Request::greedy(g.prompt_tokens.clone(), 6)).collect();
    for device in devices() {
        let mut compared = 0;
        for (golden, answer) in goldens.iter().zip(answers(&device, Dtype::Bf16, &requests)) {
            for (found, (token, _, margin)) in answer.ids().into_iter().zip(&golden.steps) {
                if found != *token {
                    assert!(*margin < 0.15, "{device}: token {found}, not {token}, which is likelier by {margin}");
                    break;
                }
                compared += 1;
            }
        }
        assert!(compared >= 9, "{device}: only {compared} tokens agree");
    }
}

#[test]
fn its_tokenizer_and_its_template_are_part_of_it() {
    let files = ModelFiles::shipped().expect("the files are part of the program");
    let tokenizer = files.tokenizer().expect("a tokenizer");
    assert_eq!(tokenizer.len(), files.config().vocab);
    for golden in goldens() {
        assert_eq!(tokenizer.encode(&golden.prompt).expect("tokens"), golden.prompt_tokens);
        assert_eq!(tokenizer.decode(&golden.prompt_tokens), golden.prompt);
        let ids: Vec<u32> = golden.steps.iter().map(|step| step.0).collect();
        assert_eq!(tokenizer.decode(&ids), golden.text);
    }
    let template = files.chat_template().expect("it can be parsed").expect("there is one");
    let said = json!([{"role": "user", "content": SHIPPED_OPENING}]);
    assert_eq!(template.render(&said, &ChatOptions::default()).expect("a text"), "Once upon a time\n");
}

#[test]
fn it_has_between_one_and_two_million_parameters() {
    let files = ModelFiles::shipped().expect("the files are part of the program");
    let bytes = files.weight_bytes(files.dtype());
    assert_eq!(files.dtype(), Dtype::Bf16);
    assert!((2_000_000..=4_000_000).contains(&bytes), "{bytes} bytes");
}

#[test]
fn a_dry_run_takes_what_the_arithmetic_says() {
    for device in devices() {
        for (budget, max_seqs) in [(16, 16), (96, 2), (128, 16)] {
            let mut model = load(&device, Dtype::Bf16);
            let config = Config { budget, max_seqs, max_len: Some(128), ..Config::default() };
            let computed = model.activation_bytes(budget, max_seqs);
            let measured = model.dry_run(&config).expect("the step runs");
            let share = measured as f64 / computed as f64;
            println!("{device}: {budget} rows of {max_seqs} sequences: {measured} of {computed} bytes");
            assert!((0.25..=1.0).contains(&share), "{device}: {measured} bytes, but {computed} were computed");
            let memory = Memory {
                free_bytes: 1 << 30,
                weight_bytes: model.weight_bytes(),
                activation_bytes: computed,
                ..Memory::default()
            };
            let sizing = Sizing::new(memory, model.limits().kv_bytes_per_token, config.block_size, 128);
            sizing.expect("there is room").check_peak(measured).expect("it is no more than was computed");
        }
    }
}
