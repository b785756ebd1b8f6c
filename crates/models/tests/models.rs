//! Tiny models of every architecture against answers that numpy computed.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Deserialize;
use serde_json::{Value, json};
use warpfold::{Device, Dtype, Profile, Queue};
use warpfold_engine::{Config, Engine, Output, Policy, Pooling, Preemption, Request};
use warpfold_models::{LanguageModel, ModelFiles, Rounding, Tokenizer};

#[derive(Deserialize)]
struct Golden {
    prompt_tokens: Vec<u32>,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    token: u32,
    logprob: f64,
    margin: f64,
    top: Vec<(u32, f64)>,
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/models").join(name)
}

fn goldens(folder: &str) -> Vec<Golden> {
    let text = std::fs::read_to_string(fixture(folder).join("golden.json")).expect("the fixture");
    serde_json::from_str(&text).expect("answers")
}

fn model(name: &str, dtype: Dtype) -> LanguageModel {
    let files = ModelFiles::open(&fixture(name)).expect("the files are right").verified();
    let queue = Queue::of(&Device::virtual_gpu(Profile::H200));
    files.load(&queue, dtype, &mut |done, all| assert!(done <= all)).expect("the weights are right")
}

/// Greedy answers to the prompts of a fixture.
fn answers(name: &str, dtype: Dtype, goldens: &[Golden], config: Config) -> Vec<Output> {
    let mut engine = Engine::new(model(name, dtype), config).expect("the settings are right");
    let ids: Vec<_> = goldens
        .iter()
        .map(|golden| {
            let greedy = Request::greedy(golden.prompt_tokens.clone(), golden.steps.len());
            let request = Request { logprobs: Some(4), ignore_eos: true, seed: Some(1), ..greedy };
            engine.add(request).expect("the request is right")
        })
        .collect();
    let mut answers = engine.run_to_end().expect("the model runs");
    ids.into_iter().map(|id| answers.remove(&id).expect("an answer").remove(0)).collect()
}

fn settings() -> Config {
    Config { num_blocks: 32, block_size: 8, ..Config::default() }
}

/// Tokens agree up to the first that is less likely than another by so little as `bound`, and
/// logprobs do until then.
#[track_caller]
fn agrees(name: &str, folder: &str, dtype: Dtype, bound: f64) {
    let goldens = goldens(folder);
    let mut compared = 0;
    for (golden, answer) in goldens.iter().zip(answers(name, dtype, &goldens, settings())) {
        assert_eq!(answer.tokens.len(), golden.steps.len());
        for (step, found) in golden.steps.iter().zip(&answer.tokens) {
            for (token, logprob) in &step.top {
                if let Some((_, found)) = found.top.iter().find(|(id, _)| id == token) {
                    assert!((logprob - f64::from(*found)).abs() < bound, "{name}: {token}: {found}, not {logprob}");
                }
            }
            if found.token != step.token {
                assert!(step.margin < bound, "{name}: token {}, not {}", found.token, step.token);
                break;
            }
            assert!((step.logprob - f64::from(found.logprob)).abs() < bound);
            compared += 1;
        }
    }
    assert!(compared >= 6, "{name}: only {compared} tokens were compared");
}

#[test]
fn llama_in_shards_with_scaled_angles_and_an_old_config_answers_as_numpy_does() {
    agrees("llama", "llama", Dtype::F32, 1e-4);
}

#[test]
fn mistral_answers_as_numpy_does() {
    agrees("mistral", "mistral", Dtype::F32, 1e-4);
}

#[test]
fn qwen2_answers_as_numpy_does() {
    agrees("qwen2", "qwen2", Dtype::F32, 1e-4);
}

#[test]
fn qwen3_answers_as_numpy_does() {
    agrees("qwen3", "qwen3", Dtype::F32, 1e-4);
}

#[test]
fn phi3_whose_matrices_are_joined_answers_as_numpy_does() {
    agrees("phi3", "phi3", Dtype::F32, 1e-4);
}

#[test]
fn heads_that_turn_a_part_of_their_elements_answer_as_numpy_does() {
    for name in ["phi4_mini", "glm", "glm4"] {
        agrees(name, name, Dtype::F32, 1e-4);
    }
}

#[test]
fn smollm3_whose_layers_turn_nothing_now_and_then_answers_as_numpy_does() {
    agrees("smollm3", "smollm3", Dtype::F32, 1e-4);
}

#[test]
fn gemma2_whose_scores_and_logits_are_bounded_answers_as_numpy_does() {
    agrees("gemma2", "gemma2", Dtype::F32, 1e-4);
}

#[test]
fn gpt_oss_with_sinks_and_experts_in_mxfp4_answers_as_numpy_does() {
    agrees("gpt_oss", "gpt_oss", Dtype::F32, 1e-4);
}

#[test]
fn granite_with_its_factors_answers_as_numpy_does() {
    agrees("granite", "granite", Dtype::F32, 1e-4);
}

#[test]
fn olmo2_and_olmo3_with_norms_of_whole_rows_and_yarn_answer_as_numpy_does() {
    agrees("olmo2", "olmo2", Dtype::F32, 1e-4);
    agrees("olmo3", "olmo3", Dtype::F32, 1e-4);
}

#[test]
fn the_half_of_mistral3_that_reads_and_writes_answers_as_numpy_does() {
    agrees("mistral3", "mistral3", Dtype::F32, 1e-4);
}

/// A folder with a fixture whose configuration and names of tensors are others, gone with it.
struct Changed(PathBuf);

impl Changed {
    fn new(name: &str, config: impl Fn(Value) -> Value, rename: impl Fn(&str) -> String) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("warpfold-changed-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let text = std::fs::read_to_string(fixture(name).join("config.json")).expect("the fixture");
        let changed = config(serde_json::from_str(&text).expect("JSON"));
        std::fs::write(folder.join("config.json"), changed.to_string()).expect("a file");
        let bytes = std::fs::read(fixture(name).join("model.safetensors")).expect("the fixture");
        let (len, rest) = bytes.split_at(8);
        let (header, data) = rest.split_at(u64::from_le_bytes(len.try_into().expect("eight bytes")) as usize);
        let header: serde_json::Map<String, Value> = serde_json::from_slice(header).expect("JSON");
        let header: serde_json::Map<_, _> = header.into_iter().map(|(name, tensor)| (rename(&name), tensor)).collect();
        let header = Value::Object(header).to_string();
        let bytes = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat();
        std::fs::write(folder.join("model.safetensors"), bytes).expect("a file");
        Self(folder)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("UTF-8")
    }
}

impl Drop for Changed {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The configuration of a model that sees as well, of which this is a half.
fn as_half(config: Value, architecture: &str) -> Value {
    json!({"architectures": [architecture], "text_config": config})
}

#[test]
fn the_half_of_gemma3_that_reads_and_writes_answers_as_numpy_does() {
    for [from, to] in [["model.", "language_model.model."], ["model.", "model.language_model."]] {
        let config = |config| as_half(config, "Gemma3ForConditionalGeneration");
        let half = Changed::new("gemma3", config, |name| name.replacen(from, to, 1));
        agrees(half.path(), "gemma3", Dtype::F32, 1e-4);
    }
}

#[test]
fn joined_matrices_that_are_wrong_are_refused() {
    let told = |config: fn(Value) -> Value, rename: fn(&str) -> String| {
        let changed = Changed::new("phi3", config, rename);
        ModelFiles::open(&changed.0).expect_err("the files are wrong").to_string()
    };
    let missing = told(|config| config, |name| name.replace("1.self_attn.qkv", "1.self_attn.abc"));
    assert!(missing.contains("tensor model.layers.1.self_attn.qkv_proj.weight: it is missing"), "{missing}");
    let rows = told(|config| and(config, "intermediate_size", 40), str::to_owned);
    assert!(rows.contains("0.mlp.gate_up_proj.weight: its shape is [96, 32], not 80 rows"), "{rows}");
    let twice = told(|config| config, |name| name.replace("0.self_attn.o_proj", "0.self_attn.q_proj"));
    assert!(twice.contains("model.layers.0.self_attn.q_proj.weight is there, too"), "{twice}");
    let flags = Changed::new("smollm3", |config| and(config, "no_rope_layers", json!([1])), str::to_owned);
    let flags = ModelFiles::open(&flags.0).expect_err("the list is short").to_string();
    assert!(flags.contains("no_rope_layers: 1 flags for 2 layers"), "{flags}");
}

#[test]
fn experts_of_gpt_oss_that_are_wrong_are_refused() {
    let told = |rename: fn(&str) -> String| {
        let changed = Changed::new("gpt_oss", |config| config, rename);
        ModelFiles::open(&changed.0).expect_err("the files are wrong").to_string()
    };
    let numbers = told(|name| name.replace("gate_up_proj_blocks", "gate_up_proj"));
    assert!(numbers.contains("gate_up_proj: experts of gpt-oss are read as MXFP4"), "{numbers}");
    let missing = told(|name| name.replace("1.mlp.experts.down_proj_scales", "scales"));
    assert!(missing.contains("down_proj_scales: it is missing beside the codes"), "{missing}");
    let scales = told(|name| match name {
        "model.layers.0.mlp.experts.down_proj_scales" => "model.layers.0.mlp.experts.gate_up_proj_scales".to_owned(),
        "model.layers.0.mlp.experts.gate_up_proj_scales" => "model.layers.0.mlp.experts.down_proj_scales".to_owned(),
        name => name.to_owned(),
    });
    assert!(scales.contains("which does not fit 1 groups of 32 rows of 4 experts"), "{scales}");
    let bias = told(|name| name.replace("0.mlp.experts.down_proj_bias", "0.mlp.experts.gate_up_proj_bias"));
    assert!(bias.contains("does not fit"), "{bias}");
}

/// A configuration with another value.
fn and(mut config: Value, field: &str, value: impl Into<Value>) -> Value {
    config[field] = value.into();
    config
}

#[test]
fn gemma3_answers_as_numpy_does() {
    agrees("gemma3", "gemma3", Dtype::F32, 1e-4);
}

#[test]
fn mixtral_answers_as_numpy_does() {
    agrees("mixtral", "mixtral", Dtype::F32, 1e-4);
}

#[test]
fn qwen3_with_experts_answers_as_numpy_does() {
    agrees("qwen3_moe", "qwen3_moe", Dtype::F32, 1e-4);
}

#[test]
fn delta_nets_beside_attention_answer_as_numpy_does() {
    for name in ["qwen3_next", "qwen3_5", "qwen3_5_moe"] {
        agrees(name, name, Dtype::F32, 1e-4);
    }
    // Files of the language model alone, and layers that are named.
    let types = json!(["linear_attention", "linear_attention", "full_attention"]);
    let config = |config: Value| {
        let config = and(config["text_config"].clone(), "architectures", json!(["Qwen3_5ForCausalLM"]));
        and(and(config, "layer_types", types.clone()), "full_attention_interval", 1)
    };
    let alone = Changed::new("qwen3_5", config, |name| name.replace("model.language_model.", "model."));
    agrees(alone.path(), "qwen3_5", Dtype::F32, 1e-4);
}

#[test]
fn a_dry_run_of_delta_nets_takes_no_more_than_the_arithmetic_says() {
    for name in ["qwen3_next", "qwen3_5"] {
        for (budget, max_seqs) in [(96, 2), (64, 16)] {
            let mut model = model(name, Dtype::Bf16);
            let config = Config { budget, max_seqs, max_len: Some(100), ..settings() };
            let computed = model.activation_bytes(budget, max_seqs);
            let measured = model.dry_run(&config).expect("the step runs");
            assert!(measured <= computed, "{name}: {measured} bytes, but {computed} were computed");
            assert!(2 * measured > computed / 4, "{name}: {measured} bytes, {computed} were computed");
        }
    }
}

#[test]
fn delta_nets_that_are_not_understood_are_refused() {
    let told = |field: &str, value: Value| {
        let changed = Changed::new("qwen3_next", |config| and(config, field, value.clone()), str::to_owned);
        ModelFiles::open(&changed.0).expect_err("the configuration is wrong").to_string()
    };
    for (field, value, expected) in [
        ("linear_conv_kernel_dim", json!(3), "linear_conv_kernel_dim: 3 taps, not 4"),
        ("linear_key_head_dim", json!(24), "keys of 24 elements: not a power of two"),
        ("linear_num_value_heads", json!(3), "3 heads of values do not share 2 of keys"),
        ("layer_types", json!(vec!["linear_attention"; 3]), "layers that attend: 0 is not from 1 to 3"),
        ("attention_bias", json!(true), "biases in attention beside delta nets"),
        ("attn_output_gate", json!(false), "attention without its gate"),
        ("num_attention_heads", json!(2), "its shape is [128, 32], not 64 rows"),
        ("linear_num_key_heads", json!(4), "its shape is"),
    ] {
        let error = told(field, value);
        assert!(error.contains(expected), "{field}: {error}");
    }
    let files = ModelFiles::open(&fixture("qwen3_next")).expect("the files are right");
    let error = files.check_parallel(2).expect_err("a state is on one device").to_string();
    assert!(error.contains("2 gated delta nets, which are on one device"), "{error}");
    let missing = Changed::new("qwen3_next", |config| config, |name| name.replace("0.linear_attn.A_log", "0.a"));
    let files = ModelFiles::open(&missing.0).expect("names are compared when weights are read");
    let queue = Queue::of(&Device::virtual_gpu(Profile::H200));
    let error = files.load(&queue, Dtype::F32, &mut |_, _| ()).expect_err("a tensor is missing").to_string();
    assert!(error.contains("model.layers.0.linear_attn.A_log"), "{error}");
}

#[test]
fn weights_of_few_bits_answer_as_they_are_stored_with_the_bits_of_those_that_are_converted() {
    let cases = [
        ("gguf/llama.gguf", None, Profile::H200, Dtype::Bf16),
        ("gguf/llama.gguf", None, Profile::H200, Dtype::F16),
        ("gguf/llama.gguf", None, Profile::A100, Dtype::Bf16),
        ("quantized/gptq_sym", None, Profile::H200, Dtype::F16),
        ("quantized/awq", None, Profile::H200, Dtype::F16),
        ("quantized/int8_packed", None, Profile::H200, Dtype::Bf16),
        ("quantized/mxfp4", None, Profile::H200, Dtype::Bf16),
        ("gpt_oss", None, Profile::H200, Dtype::Bf16),
        ("gpt_oss", None, Profile::A100, Dtype::F32),
        ("gguf_gpt_oss/model.gguf", None, Profile::H200, Dtype::Bf16),
        ("llama", Some(Rounding::Int8), Profile::H200, Dtype::Bf16),
        ("glm4", Some(Rounding::Int4), Profile::H200, Dtype::F16),
    ];
    for (path, rounding, profile, dtype) in cases {
        let path = fixture(path);
        let answer = |files: ModelFiles| {
            let queue = Queue::of(&Device::virtual_gpu(profile));
            let model = files.load(&queue, dtype, &mut |_, _| ()).expect("weights");
            let (digest, bytes) = (model.weights_digest(), model.weight_bytes());
            // On tensor cores experts take whole blocks of lines and steps, which these are much
            // smaller than.
            let (by_files, most) = (files.weight_bytes(dtype), if dtype == Dtype::F32 { 1.001 } else { 3.0 });
            let is_near = bytes + 1024 >= by_files && bytes as f64 <= most * by_files as f64;
            assert!(!path.ends_with("gpt_oss") || is_near, "{bytes}, {by_files} by the files");
            let mut engine = Engine::new(model, Config { num_blocks: 16, ..Config::default() }).expect("an engine");
            let prompts = [vec![5, 80, 7], (2..40).collect()];
            let ids = prompts.map(|prompt| {
                let request = Request { logprobs: Some(5), ..Request::greedy(prompt, 4) };
                engine.add(request).expect("the request is right")
            });
            let mut answers = engine.run_to_end().expect("the model runs");
            (digest, ids.map(|id| answers.remove(&id).expect("an answer")), bytes)
        };
        let open = || {
            let files = ModelFiles::open(&path).expect("the file is right").verified();
            match rounding {
                Some(rounding) => files.rounded(rounding).expect("there are numbers"),
                None => files,
            }
        };
        let [(digest, converted, bytes), (packed_digest, packed, packed_bytes)] =
            [answer(open()), answer(open().packed())];
        assert_eq!((digest, converted), (packed_digest, packed), "{} on {profile:?} in {dtype}", path.display());
        assert_ne!(bytes, packed_bytes);
    }
}

#[test]
fn a_quantized_gguf_file_answers_as_numpy_does_with_what_it_holds() {
    agrees("gguf/llama.gguf", "gguf", Dtype::F32, 1e-4);
}

#[test]
fn experts_of_gguf_files_answer_as_numpy_does_with_what_they_hold() {
    for folder in ["gguf_qwen3moe", "gguf_gpt_oss"] {
        agrees(&format!("{folder}/model.gguf"), folder, Dtype::F32, 1e-4);
    }
}

#[test]
fn checkpoints_that_other_programs_quantized_answer_as_numpy_does_with_what_they_hold() {
    for name in ["awq", "gptq_act_order", "int4_zeros", "nvfp4", "nf4_nested"] {
        let folder = format!("quantized/{name}");
        agrees(&folder, &folder, Dtype::F32, 1e-4);
    }
}

#[test]
fn halves_are_near() {
    agrees("llama", "llama", Dtype::Bf16, 0.15);
    agrees("qwen3", "qwen3", Dtype::F16, 0.05);
}

#[test]
fn answers_do_not_depend_on_the_schedule_by_a_bit() {
    let goldens = goldens("qwen3");
    let of = |config| answers("qwen3", Dtype::Bf16, &goldens, config);
    let expected = of(settings());
    let swaps = Config { inject_preemptions: 0.5, num_host_blocks: 32, preemption: Preemption::Swap, ..settings() };
    let others = [
        Config { budget: 7, ..settings() },
        Config { max_seqs: 1, block_size: 3, num_blocks: 60, ..settings() },
        Config { inject_preemptions: 0.5, preemption: Preemption::Recompute, ..settings() },
        swaps,
        Config { policy: Policy::Static, ..settings() },
    ];
    for config in others {
        let text = format!("{config:?}");
        assert_eq!(of(config), expected, "{text}");
    }
}

#[test]
fn forks_of_a_sequence_copy_what_they_write() {
    let files = || model("llama", Dtype::F32);
    let request =
        Request { n: 3, seed: Some(5), max_tokens: Some(6), ignore_eos: true, ..Request::new(vec![5, 9, 200]) };
    let run = |request: Request| {
        let mut engine = Engine::new(files(), settings()).expect("the settings are right");
        let id = engine.add(request).expect("the request is right");
        engine.run_to_end().expect("the model runs").remove(&id).expect("answers")
    };
    let together = run(request.clone());
    for (i, output) in together.iter().enumerate() {
        let alone = run(Request { n: 1, seed: Some(5 + i as u64), ..request.clone() });
        assert_eq!(alone[0].ids(), output.ids(), "answer {i}");
    }
}

#[test]
fn tokenizers_give_the_tokens_of_the_reference_and_the_text_back() {
    #[derive(Deserialize)]
    struct Case {
        text: String,
        tokens: Vec<u32>,
    }
    let text = std::fs::read_to_string(fixture("llama/tokens.json")).expect("the fixture");
    let cases: Vec<Case> = serde_json::from_str(&text).expect("cases");
    for name in ["llama", "gguf/llama.gguf"] {
        let files = ModelFiles::open(&fixture(name)).expect("the files are right");
        let tokenizer = files.tokenizer().expect("a tokenizer");
        for case in &cases {
            assert_eq!(tokenizer.encode(&case.text).expect("tokens"), case.tokens, "{name}: {:?}", case.text);
            assert_eq!(tokenizer.decode(&case.tokens), case.text, "{name}");
        }
    }
}

#[test]
fn a_prompt_is_neither_cut_nor_filled_up_whatever_training_did() {
    let folder = std::env::temp_dir().join(format!("warpfold-cut-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let text = std::fs::read_to_string(fixture("llama").join("tokenizer.json")).expect("the fixture");
    let mut json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    json["truncation"] =
        serde_json::json!({"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0});
    json["padding"] = serde_json::json!({
        "strategy": {"Fixed": 16}, "direction": "Left", "pad_to_multiple_of": null, "pad_id": 0, "pad_type_id": 0,
        "pad_token": "<pad>"
    });
    std::fs::write(folder.join("tokenizer.json"), json.to_string()).expect("a file");
    let [plain, other] = [fixture("llama"), folder.clone()].map(|f| Tokenizer::of_folder(&f).expect("a tokenizer"));
    let text = "the old mill by the river";
    assert_eq!(other.encode(text).expect("tokens"), plain.encode(text).expect("tokens"));
    assert_eq!(other.encode_marked("a").expect("tokens").len(), 1);
    std::fs::remove_dir_all(folder).expect("the folder is there");
}

#[test]
fn sizes_are_taken_up_to_their_bounds() {
    let config = std::fs::read_to_string(fixture("llama/config.json")).expect("the fixture");
    let folder = std::env::temp_dir().join(format!("warpfold-bounds-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    for (field, most) in [
        ("hidden_size", 1 << 20),
        ("intermediate_size", 1 << 20),
        ("vocab_size", 1 << 24),
        ("num_hidden_layers", 1 << 12),
    ] {
        let told = |value: usize| {
            let mut config: serde_json::Value = serde_json::from_str(&config).expect("JSON");
            config[field] = value.into();
            std::fs::write(folder.join("config.json"), config.to_string()).expect("a file");
            ModelFiles::open(&folder).expect_err("there are no weights").to_string()
        };
        assert!(!told(most).contains("config.json"), "{field}: {}", told(most));
        let expected = format!("{field}: {} is ", most + 1);
        assert!(told(most + 1).contains(&expected), "{}", told(most + 1));
    }
    std::fs::remove_dir_all(folder).expect("the folder is there");
}

#[test]
fn what_is_not_understood_is_refused_with_file_and_field() {
    #[track_caller]
    fn refuses(from: &str, to: &str, expected: &str) {
        let config = std::fs::read_to_string(fixture("llama/config.json")).expect("the fixture");
        assert!(config.contains(from), "{from}");
        let name = format!("warpfold-config-{}-{}", std::process::id(), expected.len());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join("config.json"), config.replace(from, to)).expect("a file");
        let error = ModelFiles::open(&folder).expect_err("the configuration is wrong").to_string();
        assert!(error.contains("config.json") && error.contains(expected), "{error}");
        std::fs::remove_dir_all(folder).expect("the folder is there");
    }
    refuses("LlamaForCausalLM", "BertModel", "not supported: architecture BertModel; known: LlamaForCausalLM");
    refuses("\"llama3\"", "\"dynamic\"", "not supported: rope of type dynamic");
    refuses("\"llama3\"", "\"longrope\"", "rope_scaling.long_factor: it is missing");
    refuses(
        "\"llama3\"",
        "\"longrope\", \"long_factor\": [1.0, 2.0]",
        "rope_scaling: 2 divisors for 4 pairs of a head",
    );
    refuses("\"llama3\"", "\"yarn\", \"beta_fast\": 1, \"beta_slow\": 2", "rope_scaling.beta_fast: -1 is not positive");
    refuses("\"llama3\"", "\"llama3\", \"partial_rotary_factor\": 0.5", "not supported: a rotation of 0.5 of a head");
    refuses("\"hidden_size\": 32", "\"hidden_size\": -1", "hidden_size: -1 is not a size");
    refuses("\"hidden_size\": 32", "\"hidden_size\": 4194304", "hidden_size: 4194304 is not from 1 to 1048576");
    refuses("\"num_key_value_heads\": 2", "\"num_key_value_heads\": 3", "num_key_value_heads: 4 heads");
    refuses("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 0", "num_hidden_layers: 0 is not from 1");
    refuses(
        "\"vocab_size\"",
        "\"quantization_config\": {\"quant_method\": \"aqlm\"}, \"vocab_size\"",
        "weights quantized by aqlm",
    );
    refuses("\"eos_token_id\": 1", "\"eos_token_id\": 288", "eos_token_id: 288 is not in a vocabulary of 288");
}

/// The raw embeddings of prompts, all at once.
fn embeddings(files: &ModelFiles, requests: Vec<Request>) -> Vec<Vec<f32>> {
    let queue = Queue::of(&Device::virtual_gpu(Profile::H200));
    let model = files.load(&queue, Dtype::F32, &mut |_, _| ()).expect("the weights are right");
    let mut engine = Engine::new(model, Config { budget: 16, ..settings() }).expect("the settings are right");
    let ids: Vec<_> = requests.into_iter().map(|request| engine.add(request).expect("it is right")).collect();
    let mut answers = engine.run_to_end().expect("the model runs");
    ids.iter().map(|id| answers.remove(id).expect("an answer").remove(0).embedding).collect()
}

#[test]
fn embeddings_are_those_of_transformers() {
    for name in ["qwen3", "gemma3"] {
        let text = std::fs::read_to_string(fixture(name).join("embeddings.json")).expect("the fixture");
        let entries: Vec<Value> = serde_json::from_str(&text).expect("embeddings");
        let mut all = Vec::new();
        for entry in &entries {
            let prompt: Vec<u32> = serde_json::from_value(entry["prompt_tokens"].clone()).expect("tokens");
            all.extend(Pooling::NAMES.map(|(key, pooling)| (&entry[key], Request::embedding(prompt.clone(), pooling))));
        }
        let files = ModelFiles::open(&fixture(name)).expect("the files are right");
        let found = embeddings(&files, all.iter().map(|(_, request)| request.clone()).collect());
        for ((expected, request), found) in all.iter().zip(found) {
            let expected: Vec<f32> = serde_json::from_value((*expected).clone()).expect("numbers");
            let most = expected.iter().zip(&found).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(expected.len() == found.len() && most < 2e-5, "{name} {:?}: off by {most}", request.pooling);
        }
    }
}

#[test]
fn a_model_of_embeddings_has_names_without_its_head_and_says_how_it_pools() {
    let base = Changed::new("qwen3", |config| config, |name| name.replacen("model.", "", 1));
    let request = Request::embedding(vec![5, 9, 200, 17], Pooling::Mean);
    let same = [&fixture("qwen3"), &base.0].map(|folder| {
        let files = ModelFiles::open(folder).expect("the files are right");
        embeddings(&files, vec![request.clone()])
    });
    assert_eq!(same[0], same[1]);
    let defaults = || ModelFiles::open(&base.0).map(|files| files.pooling_defaults());
    let said = |defaults: warpfold_models::PoolingDefaults| (defaults.pooling, defaults.is_normalized);
    assert_eq!(said(defaults().expect("none are given")), (Pooling::Last, true));
    let write = |name: &str, value: Value| {
        let path = base.0.join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, value.to_string()).expect("a file");
    };
    let mode = |last: bool, mean: bool| json!({"pooling_mode_lasttoken": last, "pooling_mode_mean_tokens": mean, "include_prompt": true});
    write("1_Pooling/config.json", mode(false, true));
    assert_eq!(said(defaults().expect("a mean")), (Pooling::Mean, true));
    let module = |kind: &str, path: &str| json!({"type": format!("sentence_transformers.models.{kind}"), "path": path});
    let (model, pooling) = (module("Transformer", ""), module("Pooling", "1_Pooling"));
    write("modules.json", json!([model, pooling]));
    assert_eq!(said(defaults().expect("no norm")), (Pooling::Mean, false));
    write("modules.json", json!([model, pooling, module("Normalize", "2_Normalize")]));
    assert_eq!(said(defaults().expect("a norm")), (Pooling::Mean, true));
    for (wrong, says) in
        [(module("Dense", "2_Dense"), "module Dense"), (module("Pooling", "../x"), "outside of the folder")]
    {
        write("modules.json", json!([model, wrong]));
        let error = defaults().expect_err("it is not supported").to_string();
        assert!(error.contains(says), "{error}");
    }
    write("modules.json", json!([model, pooling]));
    write("1_Pooling/config.json", mode(true, true));
    let error = defaults().expect_err("there are two").to_string();
    assert!(error.contains("2 modes of pooling"), "{error}");
}
