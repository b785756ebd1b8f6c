//! SmolLM2-135M-Instruct, a model that people use, against answers that numpy computed.
//!
//! `fixtures/models/fetch.py` brings the file; without it the test says so and ends.

use std::path::{Path, PathBuf};

use serde_json::json;
use warpfold::{Device, Dtype, Profile, Queue};
use warpfold_engine::{Config, Engine, Request};
use warpfold_models::{ChatOptions, ModelFiles};

/// The tokens of "The capital of France is Paris." with the end of the answer, and their logprobs,
/// by numpy in f32 from the dequantized file.
const GOLDEN: [(u32, f64); 8] = [
    (504, -1.88271),
    (3575, -0.01967),
    (282, -0.01147),
    (4649, -0.0109),
    (314, -0.03879),
    (7042, -0.04996),
    (30, -0.5656),
    (2, -0.25783),
];

/// Where the script puts the file.
fn file() -> Option<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"));
    Some(target.join("models/SmolLM2-135M-Instruct.Q4_1.gguf")).filter(|file| file.exists())
}

#[test]
fn the_capital_of_france_is_paris() {
    let Some(file) = file() else {
        println!("skipped: SmolLM2 is not there; python3 fixtures/models/fetch.py fetches it");
        return;
    };
    let files = ModelFiles::open(&file).expect("the file is right");
    let tokenizer = files.tokenizer().expect("a tokenizer");
    let template = files.chat_template().expect("it can be parsed").expect("there is one");
    let said = json!([{"role": "user", "content": "What is the capital of France?"}]);
    let options = ChatOptions { add_generation_prompt: true, ..ChatOptions::default() };
    let prompt = tokenizer.encode_marked(&template.render(&said, &options).expect("a text")).expect("tokens");
    assert_eq!((prompt.len(), &prompt[..4]), (37, &[1, 9690, 198, 2683][..]), "with the system's words in front");

    // On the CPU the first words have to do.
    let num = if std::env::var_os("WARPFOLD_ALL_TESTS").is_some() { GOLDEN.len() } else { 3 };
    // bf16 is what the weights of quantized files become. On the CPU f32 would take minutes.
    let mut runs = vec![(Device::virtual_gpu(Profile::H200), Dtype::Bf16, 0.15, num)];
    if let Ok(device) = Device::cuda(0) {
        runs.extend([(device.clone(), Dtype::Bf16, 0.15, GOLDEN.len()), (device, Dtype::F32, 5e-4, GOLDEN.len())]);
    }
    for (device, dtype, bound, num) in runs {
        let model = files.load(&Queue::of(&device), dtype, &mut |_, _| ()).expect("there is room");
        let config = Config { num_blocks: 8, ..Config::default() };
        let mut engine = Engine::new(model, config).expect("the settings are right");
        // One more than all, so that the answer ends by itself.
        let most = if num < GOLDEN.len() { num } else { num + 1 };
        let request = Request { logprobs: Some(0), ..Request::greedy(prompt.clone(), most) };
        let id = engine.add(request).expect("the request is right");
        let answer = engine.run_to_end().expect("the model runs").remove(&id).expect("an answer").remove(0);
        let text = tokenizer.decode(&answer.ids());
        assert_eq!(answer.ids(), GOLDEN[..num].iter().map(|(token, _)| *token).collect::<Vec<_>>(), "{device}: {text}");
        assert!(text.starts_with("The capital of France is Paris.") || num < GOLDEN.len() && text == "The capital of");
        let off =
            answer.tokens.iter().zip(GOLDEN).map(|(found, (_, logprob))| (f64::from(found.logprob) - logprob).abs());
        let mean = off.sum::<f64>() / num as f64;
        assert!(mean < bound, "{device}, {dtype}: logprobs are off by {mean} in the mean");
    }
}
