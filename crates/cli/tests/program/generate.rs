//! `generate` on the tiny models of the fixtures.

use std::path::Path;

use serde_json::Value;

use crate::support::{Outcome, folder, refused, warpfold};

fn model(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/models").join(name);
    path.to_str().expect("UTF-8").to_owned()
}

fn generate(name: &str, more: &[&str]) -> Outcome {
    warpfold(&[&["generate", &model(name), "--device", "virtual"], more].concat()).ended_with(0)
}

fn lines(outcome: &Outcome) -> Vec<Value> {
    outcome.stdout.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

#[test]
fn prompts_of_a_file_are_answered_in_their_order() {
    let file = folder("prompts_of_a_file_are_answered_in_their_order").join("requests.jsonl");
    let text = r#"{"prompt_tokens": [5, 9, 200, 17], "max_tokens": 6, "logprobs": 2}

{"prompt": "the other", "n": 2, "stop": ["x", "y"], "temperature": 1, "top_k": 5, "seed": 7}
"#;
    std::fs::write(&file, text).expect("written");
    let file = file.to_str().expect("UTF-8");
    let options =
        ["--requests", file, "--json", "--temperature", "0", "--max-tokens", "3", "--ignore-eos", "--dtype", "f32"];
    let found = lines(&generate("llama", &options));
    let golden = std::fs::read_to_string(Path::new(&model("llama")).join("golden.json")).expect("the fixture");
    let golden: Value = serde_json::from_str(&golden).expect("JSON");
    assert_eq!(found.len(), 2);

    let (first, expected) = (&found[0]["outputs"][0], &golden[0]);
    assert_eq!(found[0]["prompt_tokens"], expected["prompt_tokens"]);
    let tokens = |steps: &Value| -> Vec<Value> {
        steps.as_array().expect("a list").iter().map(|step| step["token"].clone()).collect()
    };
    assert_eq!(first["tokens"], Value::from(tokens(&expected["steps"])));
    assert_eq!(tokens(&first["logprobs"]), tokens(&expected["steps"]));
    assert_eq!(first["finish_reason"], "length");
    assert_eq!(first["logprobs"][0]["top"][0][0], first["tokens"][0]);
    assert_eq!(first["logprobs"][0]["top"].as_array().expect("a list").len(), 2);

    let second = &found[1]["outputs"];
    assert_eq!([&second[0]["seed"], &second[1]["seed"]], [&Value::from(7), &Value::from(8)]);
    assert!(second[0].get("logprobs").is_none());
}

#[test]
fn answers_do_not_depend_on_how_the_engine_runs() {
    let base = [
        "--prompt-tokens",
        "5,9,200,17,5,9,200,17,5,9",
        "--json",
        "--seed",
        "3",
        "--max-tokens",
        "8",
        "--logprobs",
        "1",
    ];
    let expected = generate("qwen3", &base).stdout;
    for more in [
        &["--budget", "3", "--kv-blocks", "4"][..],
        &["--policy", "vllm-v0", "--no-prefix-cache"],
        &["--inject-preemptions", "0.5", "--max-seqs", "1"],
    ] {
        assert_eq!(generate("qwen3", &[&base[..], more].concat()).stdout, expected, "{more:?}");
    }
}

#[test]
fn text_is_printed_without_json() {
    let out = generate("gguf/llama.gguf", &["the", "and", "--max-tokens", "2", "--temperature", "0"]).stdout;
    assert!(out.ends_with('\n') && !out.contains("{\"prompt"), "{out}");
}

#[test]
fn what_cannot_be_done_is_one_line() {
    let llama = model("llama");
    let with =
        |more: &[&str], part: &str| refused(&[&["generate", &llama, "--device", "virtual"], more].concat(), 2, part);
    with(&[], "a prompt is needed");
    with(&["--prompt-tokens", "288"], "prompt: token 288 is not in a vocabulary of 288");
    with(&["--prompt-tokens", "1", "--top-p", "2"], "top_p: 2 is not in");
    with(&["--prompt-tokens", "1", "--max-tokens", "128"], "the prompt has 1 tokens and at least 128");
    with(&["--prompt-tokens", "1", "--policy", "v1"], "\"v1\" is not static, orca");
    with(&["--prompt-tokens", "1", "--speculate", "4"], "unexpected argument '--speculate'");
    with(&["--prompt-tokens", "1", "--max-tokens", "100", "--kv-blocks", "1"], "the request needs");
    refused(&["generate", &model("qwen2"), "a text"], 2, "a prompt as text needs a tokenizer");
    refused(&["generate", "absent.gguf", "a"], 2, "cannot read absent.gguf: ");
    let file = folder("what_cannot_be_done_is_one_line").join("requests.jsonl");
    std::fs::write(&file, "{\"prompt\": \"a\", \"best_of\": 2}\n").expect("written");
    let file = file.to_str().expect("UTF-8");
    with(&["--requests", file], "requests.jsonl:1: unknown field `best_of`");
}
