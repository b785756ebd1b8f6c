//! SmolLM2-135M-Instruct, a model that people use, against answers that numpy computed.
//!
//! `fixtures/models/fetch.py` brings the file, `fixtures/models/convert.py` makes a folder of
//! Hugging Face of it; without them the tests say so and end.

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

/// Where the scripts put what they make.
fn made(name: &str) -> Option<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"));
    Some(target.join("models").join(name)).filter(|file| file.exists())
}

fn file() -> Option<PathBuf> {
    made("SmolLM2-135M-Instruct.Q4_1.gguf")
}

#[test]
fn its_weights_answer_with_the_same_bits_converted_as_stored_and_from_safetensors() {
    let (Some(gguf), Some(folder)) = (file(), made("SmolLM2-135M-Instruct-bf16")) else {
        println!("skipped: SmolLM2 is not there in both; fixtures/models/fetch.py fetches it, convert.py converts it");
        return;
    };
    let answer = |files: ModelFiles| {
        let files = files.verified();
        let queue = Queue::of(&Device::virtual_gpu(Profile::H200));
        let model = files.load(&queue, Dtype::Bf16, &mut |_, _| ()).expect("there is room");
        let (digest, bytes) = (model.weights_digest().expect("they are verified"), model.weight_bytes());
        let mut engine =
            Engine::new(model, Config { num_blocks: 8, ..Config::default() }).expect("the settings are right");
        let request = Request { logprobs: Some(5), ..Request::greedy(vec![504, 3575, 282], 1) };
        let id = engine.add(request).expect("the request is right");
        (digest, engine.run_to_end().expect("the model runs").remove(&id).expect("an answer"), bytes)
    };
    let open = |path: &Path| ModelFiles::open(path).expect("the files are right");
    let (digest, expected, bytes) = answer(open(&gguf));
    // The same bytes in device memory give the same answer.
    let queue = Queue::of(&Device::virtual_gpu(Profile::H200));
    let model = open(&folder).verified().load(&queue, Dtype::Bf16, &mut |_, _| ()).expect("there is room");
    assert_eq!((model.weights_digest(), model.weight_bytes()), (Some(digest), bytes));
    drop(model);
    let (packed_digest, packed, packed_bytes) = answer(open(&gguf).packed());
    assert_eq!((packed_digest, packed), (digest, expected));
    assert!(2 * packed_bytes < bytes, "{packed_bytes} and {bytes} bytes");
}

#[test]
fn the_capital_of_france_is_paris() {
    let Some(file) = file() else {
        println!("skipped: SmolLM2 is not there; python3 fixtures/models/fetch.py fetches it");
        return;
    };
    let files = ModelFiles::open(&file).expect("the file is right").verified();
    let tokenizer = files.tokenizer().expect("a tokenizer");
    let template = files.chat_template().expect("it can be parsed").expect("there is one");
    let said = json!([{"role": "user", "content": "What is the capital of France?"}]);
    let options = ChatOptions { add_generation_prompt: true, ..ChatOptions::default() };
    let prompt = tokenizer.encode_marked(&template.render(&said, &options).expect("a text")).expect("tokens");
    assert_eq!((prompt.len(), &prompt[..4]), (37, &[1, 9690, 198, 2683][..]), "with the system's words in front");

    // On the CPU the first words have to do.
    let num = if std::env::var_os("WARPFOLD_ALL_TESTS").is_some() { GOLDEN.len() } else { 2 };
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
        assert!(text.starts_with("The capital of France is Paris.") || num < GOLDEN.len() && text == "The capital");
        let off =
            answer.tokens.iter().zip(GOLDEN).map(|(found, (_, logprob))| (f64::from(found.logprob) - logprob).abs());
        let mean = off.sum::<f64>() / num as f64;
        assert!(mean < bound, "{device}, {dtype}: logprobs are off by {mean} in the mean");
    }
}
