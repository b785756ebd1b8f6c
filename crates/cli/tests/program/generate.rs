//! `generate` on the tiny models of the fixtures.

use std::path::Path;

use serde_json::Value;

use crate::support::{Outcome, finish, folder, program, refused, warpfold};

fn model(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/models").join(name);
    path.to_str().expect("UTF-8").to_owned()
}

/// An answer of a model whose weights are compared with the files.
fn generate(name: &str, more: &[&str]) -> Outcome {
    warpfold(&[&["generate", &model(name), "--device", "virtual", "--verify-weights"], more].concat()).ended_with(0)
}

fn lines(outcome: &Outcome) -> Vec<Value> {
    outcome.stdout.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

#[test]
fn a_model_that_drafts_for_itself_changes_no_answer() {
    let llama = model("llama");
    let asked = ["generate", &llama, "--device", "virtual", "--prompt-tokens", "5,9,200", "--max-tokens", "12"];
    let drawn = ["--seed", "3", "--temperature", "1.2", "--ignore-eos", "--json"];
    let plain = warpfold(&[&asked[..], &drawn].concat()).ended_with(0);
    let drafted = warpfold(&[&asked[..], &drawn, &["--draft", &llama, "--speculate", "5"]].concat()).ended_with(0);
    assert_eq!(plain.stdout, drafted.stdout);
    let told = drafted.stderr.lines().find(|line| line.ends_with("drafted tokens were right")).expect("it is told");
    let [right, "of", all, ..] = told.split(' ').collect::<Vec<_>>()[..] else { panic!("{told}") };
    assert_eq!(right, all, "{told}");
    refused(&[&asked[..], &["--draft", &llama, "--speculate", "0"]].concat(), 2, "asks it for nothing");
    refused(&[&asked[..], &["--draft", "absent.gguf"]].concat(), 2, "cannot read absent.gguf");
}

#[test]
fn rounded_weights_cost_perplexity_and_give_bytes_back() {
    let text = std::env::temp_dir().join(format!("warpfold-quality-{}.txt", std::process::id()));
    std::fs::write(&text, "Once upon a time there was a little girl.").expect("a file");
    let text = text.to_str().expect("a path");
    let quality = ["bench", "quality", "--device", "virtual", "--text", text];
    let table = warpfold(&quality).ended_with(0).stdout;
    assert!(
        table.starts_with("weights ") && table.contains("\nint8 ") && table.contains(" nats per byte\n"),
        "{table}"
    );
    let json = ["--quantize", "int4", "--context", "5", "--report", "json"];
    let found = warpfold(&[&quality[..], &json].concat()).ended_with(0).json();
    let [files, int4] = [0, 1].map(|i| &found["runs"][i]);
    assert_eq!((&files["weights"], &int4["weights"]), (&"of the files".into(), &"int4".into()), "{found}");
    assert!(int4["bytes"].as_u64() < files["bytes"].as_u64() && files["tokens"] == int4["tokens"], "{found}");
    assert!(files["perplexity"].as_f64() > Some(1.0) && files["perplexity"] != int4["perplexity"], "{found}");
    refused(&[&quality[..], &["--context", "1"]].concat(), 2, "--context: a window has at least 2 tokens");
    refused(&[&quality[..], &["--quantize", "int3"]].concat(), 2, "int3");
    std::fs::write(text, "").expect("a file");
    refused(&quality, 2, "the text has less than 2 tokens");
    std::fs::remove_file(text).expect("the file is there");
    let rounded = ["generate", &model("quantized/gptq_sym"), "--quantize", "int4", "--prompt-tokens", "5"];
    refused(&rounded, 2, "not supported: rounding of weights of which none are numbers in whole blocks of 32");
    // Rounded weights are one set of numbers, however they are held.
    let answer = |weights| {
        let rounded = ["--quantize", "int4", "--weights", weights, "--verify-weights", "--temperature", "0"];
        let asked = ["generate", "Once upon", "--device", "virtual", "--max-tokens", "3"];
        let ran = warpfold(&[&asked[..], &rounded].concat()).ended_with(0);
        (ran.stdout, ran.stderr)
    };
    assert_eq!(answer("stored"), answer("converted"));
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
fn a_file_of_answers_that_was_cut_off_is_gone_on_with() {
    let folder = folder("a_file_of_answers_that_was_cut_off_is_gone_on_with");
    let (requests, answers) = (folder.join("requests.jsonl"), folder.join("answers.jsonl"));
    let text: String =
        (2..6).map(|i| format!("{{\"prompt_tokens\": [5, {i}], \"max_tokens\": {i}, \"seed\": {i}}}\n")).collect();
    std::fs::write(&requests, text).expect("written");
    std::fs::remove_file(&answers).ok();
    let (asked, to) = (requests.to_str().expect("UTF-8"), answers.to_str().expect("UTF-8"));
    let options = ["--requests", asked, "--json", "--dtype", "f32"];
    let expected = generate("llama", &options).stdout;
    let options = [&options[..], &["-o", to]].concat();
    assert_eq!(generate("llama", &options).stdout, "");
    assert_eq!(std::fs::read_to_string(&answers).expect("written"), expected);
    // In the middle of the third line, at the end of one, and of all.
    let ends: Vec<usize> = expected.match_indices('\n').map(|(end, _)| end + 1).collect();
    for (kept, there) in [(ends[1] + 9, 2), (ends[2], 3), (ends[3], 4)] {
        std::fs::write(&answers, &expected[..kept]).expect("written");
        let outcome = generate("llama", &options);
        assert!(outcome.stderr.contains(&format!("{there} of 4 answers were there\n")), "{}", outcome.stderr);
        assert_eq!(std::fs::read_to_string(&answers).expect("written"), expected, "{kept} bytes");
    }
    let other = expected.replacen("[5,3]", "[5,7]", 1);
    for wrong in [other.as_str(), "{}\n", &(expected.clone() + &expected)] {
        std::fs::write(&answers, wrong).expect("written");
        let refused = warpfold(&[&["generate", &model("llama")][..], &options].concat()).ended_with(2).stderr;
        assert!(refused.contains("answers no such request: name another file"), "{refused}");
        assert_eq!(std::fs::read_to_string(&answers).expect("written"), wrong);
    }
}

#[test]
fn weights_that_were_compared_with_the_files_have_one_digest_on_any_number_of_devices() {
    let asked = ["--prompt-tokens", "5,9", "--max-tokens", "1", "--dtype"];
    let digest = |name: &str, dtype: &str, more: &[&str]| {
        let found = generate(name, &[&asked[..], &[dtype], more].concat()).stderr;
        let digest = found.lines().find_map(|line| line.strip_prefix("weights are those of the files, digest "));
        digest.unwrap_or_else(|| panic!("{found}")).to_owned()
    };
    let llama = digest("llama", "bf16", &[]);
    assert!(llama.len() == 16 && llama.chars().all(|c| c.is_ascii_hexdigit()), "{llama}");
    assert_eq!(digest("llama", "bf16", &["--tensor-parallel", "1"]), llama);
    assert_eq!(digest("llama", "bf16", &["--tensor-parallel", "2"]), llama);
    assert_ne!(digest("llama", "f32", &[]), llama);
    assert_ne!(digest("mistral", "bf16", &[]), llama);
}

#[test]
fn answers_do_not_depend_on_how_many_devices_share_the_model() {
    let asked = ["--prompt-tokens", "5,9,200,17", "--json", "--seed", "3", "--max-tokens", "5", "--logprobs", "3"];
    let on = |devices: &str| {
        let more = ["--tensor-parallel", devices, "--swap-bytes", "100000", "--inject-preemptions", "0.3"];
        generate("llama", &[&asked[..], &more].concat()).stdout
    };
    let one = on("1");
    assert!(one.contains("\"logprobs\""), "{one}");
    assert_eq!(on("2"), one);
    assert_eq!(on("4"), one);
    let sizes = generate("llama", &[&asked[..], &["--tensor-parallel", "2", "--sizes"]].concat());
    for part in ["on each of 2 devices:", "the largest step took "] {
        assert!(sizes.stderr.contains(part), "{}", sizes.stderr);
    }
    let refused = |devices, part| {
        let llama = model("llama");
        let args = ["generate", &llama, "a", "--device", "virtual", "--tensor-parallel", devices];
        refused(&args, 2, part);
    };
    refused("3", "--tensor-parallel: 3 devices cannot share the model: it has 8 parts of a sum");
    refused("8", "--tensor-parallel: 8 devices cannot share the model: it has 4 heads of queries");
    refused("0", "--tensor-parallel: 0 devices cannot share the model");
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
        &["--speculate", "3", "--no-overlap"],
    ] {
        assert_eq!(generate("qwen3", &[&base[..], more].concat()).stdout, expected, "{more:?}");
    }
}

#[test]
fn text_is_printed_without_json() {
    let out = generate("gguf/llama.gguf", &["the", "and", "--max-tokens", "2", "--temperature", "0"]).stdout;
    assert!(out.ends_with('\n') && !out.contains("{\"prompt"), "{out}");
}

/// Names of an object's fields.
fn fields(value: &Value) -> Vec<&str> {
    let mut fields: Vec<_> = value.as_object().expect("an object").keys().map(String::as_str).collect();
    fields.sort_unstable();
    fields
}

#[test]
fn without_a_model_it_tells_a_tale() {
    let tale = |more: &[&str]| warpfold(&[&["generate", "--device", "virtual", "--max-tokens", "6"], more].concat());
    let greedy = tale(&["--temperature", "0"]).ended_with(0);
    assert!(greedy.stdout.starts_with("Once upon a time there was a "), "{}", greedy.stdout);
    assert_eq!(greedy.stderr, "");
    let named =
        warpfold(&["generate", "warpfold-tales", "Once upon a time", "--device", "virtual", "--max-tokens", "6"]);
    assert!(!named.ended_with(0).stdout.starts_with("Once"), "who types an opening knows it");
    let words = warpfold(&["generate", "Once upon a time", "--device", "virtual", "--max-tokens", "6", "--seed", "4"]);
    let words = words.ended_with(0).stdout;
    assert_eq!(words.trim(), tale(&["--seed", "4"]).stdout.trim().trim_start_matches("Once upon a time").trim());
    assert_eq!(tale(&["--seed", "4"]).stdout, tale(&["--seed", "4", "--temperature", "0.6"]).stdout);
    let said = tale(&["--json"]).ended_with(0).json();
    assert_eq!(said["prompt_tokens"].as_array().expect("a list").len(), 5);
    assert!(said["outputs"][0]["seed"].is_u64(), "a drawn seed is returned");
}

#[test]
fn a_line_of_json_has_the_documented_fields_and_no_others() {
    let options =
        ["--prompt-tokens", "5,9", "--json", "--n", "2", "--logprobs", "3", "--max-tokens", "2", "--ignore-eos"];
    let found = &lines(&generate("llama", &options))[0];
    assert_eq!(fields(found), ["outputs", "prompt_tokens"]);
    let outputs = found["outputs"].as_array().expect("a list");
    assert_eq!(outputs.len(), 2);
    for output in outputs {
        assert_eq!(fields(output), ["finish_reason", "logprobs", "seed", "text", "tokens"]);
        assert_eq!(output["finish_reason"], "length");
        assert_eq!(output["logprobs"].as_array().expect("a list").len(), 2);
        assert_eq!(fields(&output["logprobs"][0]), ["logprob", "token", "top"]);
        assert_eq!(output["logprobs"][0]["top"].as_array().expect("a list").len(), 3);
    }
    let beams = &lines(&generate(
        "llama",
        &["--prompt-tokens", "5,9", "--json", "--beam", "3", "--n", "2", "--max-tokens", "3"],
    ))[0];
    assert_eq!(beams["outputs"].as_array().expect("a list").len(), 2);
}

#[test]
fn a_stop_string_ends_an_answer_and_is_not_part_of_it() {
    let run = |more: &[&str]| {
        let options =
            ["generate", "warpfold-tales", "Once upon a time", "--device", "virtual", "--temperature", "0", "--json"];
        warpfold(&[&options, more].concat()).ended_with(0).json()["outputs"][0].clone()
    };
    let whole = run(&["--max-tokens", "6"]);
    let text = whole["text"].as_str().expect("a text");
    let stop = text.trim().split(' ').nth(2).expect("three words");
    let stopped = run(&["--max-tokens", "6", "--stop", "?!", "--stop", stop]);
    assert_eq!(stopped["finish_reason"], "stop");
    assert_eq!(stopped["text"].as_str(), text.find(stop).map(|at| &text[..at]));
}

#[test]
fn a_trace_shows_the_queues_of_each_step_and_sizes_have_every_term() {
    let options =
        ["--prompt-tokens", "1,2,3,4,5,6,7", "--n", "2", "--max-tokens", "3", "--ignore-eos", "--json", "--seed", "1"];
    let plain = generate("llama", &options);
    assert!(plain.stderr.starts_with("weights are those of the files") && plain.stderr.lines().count() == 1);
    let more = ["--trace", "--sizes", "--block-size", "4", "--no-prefix-cache", "--policy", "vllm-v0"];
    let traced = generate("llama", &[&options[..], &more].concat());
    assert_eq!(traced.stdout, plain.stdout);
    for part in [
        "free ",
        "- weights ",
        "- largest step ",
        "= cache ",
        "blocks on the device, 0 on the host",
        "sequences of 512 tokens, or ",
        "the largest step took ",
        "step 1: 7 rows, ",
        "  running  1/1: 7 of 8 computed, blocks [1(2) 2(2)]",
        "  swapped  []",
        "  waiting  []",
        "  copy     2→3",
    ] {
        assert!(traced.stderr.contains(part), "{part} in:\n{}", traced.stderr);
    }
}

#[test]
fn a_chat_is_what_the_template_makes_of_a_prompt() {
    let run = |prompt: &str, more: &[&str]| {
        let options = ["generate", "warpfold-tales", prompt, "--device", "virtual", "--max-tokens", "2", "--json"];
        warpfold(&[&options, more].concat()).ended_with(0).json()["prompt_tokens"].clone()
    };
    assert_eq!(run("The wolf", &["--chat"]), run("The wolf\n", &[]));
    refused(&["generate", &model("llama"), "a", "--chat"], 2, "--chat needs a chat template, and the model has none");
}

#[test]
fn a_name_of_the_hub_is_found_in_the_local_cache() {
    let hub = folder("a_name_of_the_hub_is_found_in_the_local_cache");
    let repository = hub.join("models--somebody--llama");
    let snapshot = repository.join("snapshots/abc");
    std::fs::create_dir_all(&snapshot).expect("a folder");
    std::fs::create_dir_all(repository.join("refs")).expect("a folder");
    std::fs::write(repository.join("refs/main"), "abc").expect("written");
    for file in std::fs::read_dir(model("llama")).expect("the fixture") {
        let file = file.expect("a file").path();
        std::fs::copy(&file, snapshot.join(file.file_name().expect("a name"))).expect("copied");
    }
    let of = |name: &str| {
        let options = ["generate", name, "--prompt-tokens", "5", "--json", "--max-tokens", "2", "--device", "virtual"];
        let more = ["--temperature", "0", "--seed", "1"];
        finish(program(&[&options[..], &more].concat()).env("HF_HUB_CACHE", &hub))
    };
    let direct = of(&model("llama")).ended_with(0);
    assert_eq!(of("somebody/llama").ended_with(0).stdout, direct.stdout);
    let absent = of("somebody/else").ended_with(2);
    assert!(absent.stderr.contains("nor in the Hugging Face cache"), "{}", absent.stderr);
}

#[test]
fn what_cannot_be_done_is_one_line() {
    let llama = model("llama");
    let with =
        |more: &[&str], part: &str| refused(&[&["generate", &llama, "--device", "virtual"], more].concat(), 2, part);
    with(&[], "a prompt is needed");
    with(&["--prompt-tokens", "288"], "prompt: token 288 is not in a vocabulary of 288");
    with(&["--prompt-tokens", "1", "--top-p", "2"], "top_p: 2 is not above 0 and up to 1");
    with(&["--prompt-tokens", "1", "--max-tokens", "128"], "the prompt has 1 tokens and at least 128");
    with(&["--prompt-tokens", "1", "--max-tokens", "18446744073709551615"], "and at least 18446744073709551615 are");
    with(&["--prompt-tokens", "1", "--logprobs", "289"], "logprobs: more tokens than the vocabulary has");
    with(&["--prompt-tokens", "1", "--max-len", "1"], "and at least 1 are");
    with(&["--prompt-tokens", "1", "--policy", "v1"], "\"v1\" is not static, orca");
    with(&["--prompt-tokens", "1", "--best-of", "4"], "unexpected argument '--best-of'");
    with(&["--prompt-tokens", "1", "--max-tokens", "100", "--kv-blocks", "1"], "the request needs");
    with(&["--prompt-tokens", "1,x"], "invalid value 'x' for '--prompt-tokens <IDS>'");
    with(&["--prompt-tokens", "1", "--temperature", "-1"], "temperature: ");
    with(&["--prompt-tokens", "1", "--temperature", "nan"], "temperature: ");
    with(&["--prompt-tokens", "1", "--top-k", "0"], "top_k: ");
    with(&["--prompt-tokens", "1", "--min-p", "2"], "min_p: ");
    with(&["--prompt-tokens", "1", "--n", "0"], "n: 0 answers");
    with(&["--prompt-tokens", "1", "--max-tokens", "0"], "max_tokens: 0 tokens");
    with(&["--prompt-tokens", "1", "--beam", "1", "--n", "2"], "beam: ");
    with(&["--prompt-tokens", "1", "--stop", ""], "stop: a stop string is empty");
    with(&["--prompt-tokens", "1", "--budget", "0"], "--budget: ");
    with(&["--prompt-tokens", "1", "--max-seqs", "0"], "--max-seqs: ");
    with(&["--prompt-tokens", "1", "--block-size", "0"], "--block-size: 0 is not positive");
    with(&["--prompt-tokens", "1", "--kv-blocks", "0"], "--kv-blocks: ");
    with(&["--prompt-tokens", "1", "--inject-preemptions", "1.5"], "--inject-preemptions: 1.5 is not in 0 to 1");
    with(&["--prompt-tokens", "1", "--requests", "absent.jsonl"], "cannot read absent.jsonl");
    with(&["--prompt-tokens", "1", "--dtype", "int8"], "int8 is not f32, f16 or bf16");
    refused(&["generate", "--device", "cuda:x"], 2, "cuda:x");
    refused(
        &["generate", "The wolf said", "and left"],
        2,
        "if that is a prompt: warpfold generate warpfold-tales \"The wolf said\"",
    );
    refused(&["generate", &model("qwen2"), "a text"], 2, "a prompt as text needs a tokenizer");
    refused(&["generate", "absent.gguf", "a"], 2, "cannot read absent.gguf: ");
    let file = folder("what_cannot_be_done_is_one_line").join("requests.jsonl");
    std::fs::write(&file, "{\"prompt\": \"a\", \"best_of\": 2}\n").expect("written");
    let file = file.to_str().expect("UTF-8");
    with(&["--requests", file], "requests.jsonl:1: unknown field `best_of`");
    for (second, part) in [
        ("{\"prompt\": \"\"}", "requests.jsonl:2: prompt: it has no token"),
        ("{\"prompt\": \"a\", \"temperature\": -1}", "requests.jsonl:2: temperature: -1 is not in 0 to 100"),
        ("{\"prompt\": \"a\", \"stop\": 5}", "requests.jsonl:2: stop is a text or a list of texts"),
        ("{\"prompt_tokens\": [288]}", "requests.jsonl:2: prompt: token 288 is not in a vocabulary of 288"),
    ] {
        std::fs::write(file, format!("{{\"prompt\": \"a\"}}\n{second}\n")).expect("written");
        with(&["--requests", file], part);
    }
}
