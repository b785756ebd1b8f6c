//! `--lora` of `generate` and `serve`.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::support::{folder, refused, warpfold};

/// A folder with an adapter of `qwen3` of the fixtures, all of whose second matrices hold a number.
fn adapter(name: &str, number: f32) -> String {
    let folder = folder(name);
    let config = json!({"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": ["v_proj"]});
    fs::write(folder.join("adapter_config.json"), config.to_string()).expect("a file");
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for layer in 0..2 {
        for (part, shape, value) in [("A", [4, 32], 0.25_f32), ("B", [48, 4], number)] {
            let start = data.len();
            data.extend(value.to_le_bytes().repeat(shape[0] * shape[1]));
            let name = format!("base_model.model.model.layers.{layer}.self_attn.v_proj.lora_{part}.weight");
            header.insert(name, json!({"dtype": "F32", "shape": shape, "data_offsets": [start, data.len()]}));
        }
    }
    let header = serde_json::Value::Object(header).to_string();
    let bytes = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat();
    fs::write(folder.join("adapter_model.safetensors"), bytes).expect("a file");
    folder.to_str().expect("UTF-8").to_owned()
}

fn model() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/models/qwen3");
    path.to_str().expect("UTF-8").to_owned()
}

#[test]
fn an_adapter_changes_answers_and_an_empty_one_none() {
    let model = model();
    let answer = |more: &[&str]| {
        let args = ["generate", &model, "--device", "virtual", "--prompt-tokens", "5,9,17", "--max-tokens", "4"];
        let found = warpfold(&[&args[..], &["--temperature", "0", "--json", "--logprobs", "2"], more].concat());
        found.ended_with(0).json()["outputs"].clone()
    };
    let base = answer(&[]);
    let [empty, other] = [("adapter-empty", 0.0), ("adapter-other", 0.5)].map(|(name, number)| adapter(name, number));
    let without_seed = |outputs: &serde_json::Value| outputs[0]["logprobs"].clone();
    assert!(base[0]["logprobs"].is_array(), "{base}");
    assert_eq!(without_seed(&answer(&["--lora", &empty])), without_seed(&base));
    assert_ne!(without_seed(&answer(&["--lora", &other])), without_seed(&base));
    let sizes = warpfold(&[
        "generate",
        &model,
        "--device",
        "virtual",
        "--prompt-tokens",
        "5",
        "--max-tokens",
        "1",
        "--lora",
        &other,
        "--sizes",
    ]);
    let told = sizes.ended_with(0).stderr;
    assert!(told.contains("room for 1 adapters of a rank up to 4"), "{told}");
}

#[test]
fn adapters_that_cannot_be_are_refused() {
    let (model, path) = (model(), adapter("adapter-refused", 1.0));
    let named = format!("a={path}");
    let generate = |more: &[&str], part: &str| {
        refused(&[&["generate", &model, "--prompt-tokens", "5", "--device", "virtual"], more].concat(), 2, part);
    };
    generate(&["--lora", "/nowhere"], "cannot read /nowhere/adapter_config.json");
    generate(&["--lora", &path, "--tensor-parallel", "2"], "a model that several devices share takes no adapters");
    let serve = |more: &[&str], part: &str| {
        refused(&[&["serve", &model, "--port", "0", "--device", "virtual"], more].concat(), 2, part);
    };
    serve(&["--lora", "a"], "it is not NAME=PATH");
    serve(&["--lora", &named, "--lora", &named], "--lora: a is there twice");
    serve(&["--lora", &named, "--max-loras", "0"], "--max-loras: 0 is less than the 1 of --lora");
    serve(&["--lora", &named, "--max-lora-rank", "2"], "--max-lora-rank: 2 is not from 4 to 256");
    serve(&["--lora", &named, "--served-model-name", "a"], "--lora: a is the name of the model itself");
}
