//! Models of real sizes: every architecture, two layers of random weights each, with the hidden
//! sizes, heads and vocabularies of models that people run.
//!
//! On a GPU (the one that `WARPFOLD_DEVICE` names, or the first) each answers with the bits that
//! the virtual GPU gives: tokens, their logprobs and those of the most likely ones. Without a GPU
//! that is left out, which each test says; what is left is one model that is as wide as the loader's
//! thresholds, whose answers in the type of its weights stay near those in `f32`.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use warpfold::{Device, Dtype, Profile, Queue};
use warpfold_engine::{Config, Engine, Request};
use warpfold_models::ModelFiles;

/// What an answer was made of, as bits: a token, its logprob, the most likely tokens.
type Bits = (u32, u32, Vec<(u32, u32)>);

/// Tokens and sizes of a model, as `config.json` has them.
struct Model {
    name: &'static str,
    config: Value,
}

fn model(name: &'static str, architecture: &str, sizes: [usize; 5], vocab: usize, more: Value) -> Model {
    let [hidden, intermediate, heads, kv_heads, head_dim] = sizes;
    let mut config = json!({
        "architectures": [architecture], "hidden_size": hidden, "intermediate_size": intermediate,
        "num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": head_dim, "vocab_size": vocab,
        "num_hidden_layers": 2, "max_position_embeddings": 2048, "rms_norm_eps": 1e-6, "eos_token_id": 1,
        "rope_theta": 10000.0, "tie_word_embeddings": true, "dtype": "bfloat16",
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        config[key] = value.clone();
    }
    Model { name, config }
}

fn llama() -> Model {
    let scaling = json!({
        "rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 1024,
    });
    let more = json!({"rope_theta": 500_000.0, "rope_scaling": scaling});
    model("Llama 3.2 1B", "LlamaForCausalLM", [2048, 8192, 32, 8, 64], 128_256, more)
}

fn mistral() -> Model {
    let more = json!({"sliding_window": 16, "tie_word_embeddings": false});
    model("Mistral 7B", "MistralForCausalLM", [4096, 14_336, 32, 8, 128], 32_000, more)
}

fn qwen2() -> Model {
    model("Qwen2.5 1.5B", "Qwen2ForCausalLM", [1536, 8960, 12, 2, 128], 151_936, json!({}))
}

fn qwen3() -> Model {
    model("Qwen3 0.6B", "Qwen3ForCausalLM", [1024, 3072, 16, 8, 128], 151_936, json!({}))
}

fn qwen3_large() -> Model {
    let more = json!({"tie_word_embeddings": false});
    model("Qwen3 8B", "Qwen3ForCausalLM", [4096, 12_288, 32, 8, 128], 151_936, more)
}

fn gemma3() -> Model {
    let rope = json!({
        "full_attention": {"rope_type": "default", "rope_theta": 1_000_000.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
    });
    let more = json!({
        "sliding_window": 16, "query_pre_attn_scalar": 256, "layer_types": ["sliding_attention", "full_attention"],
        "hidden_activation": "gelu_pytorch_tanh", "rope_parameters": rope,
    });
    model("Gemma 3 1B", "Gemma3ForCausalLM", [1152, 6912, 4, 1, 256], 262_144, more)
}

fn mixtral() -> Model {
    let more = json!({"num_local_experts": 8, "num_experts_per_tok": 2, "tie_word_embeddings": false});
    model("half a Mixtral", "MixtralForCausalLM", [2048, 7168, 16, 4, 128], 32_000, more)
}

fn qwen3_moe() -> Model {
    let more = json!({
        "num_experts": 32, "num_experts_per_tok": 8, "moe_intermediate_size": 768, "norm_topk_prob": true,
    });
    model("Qwen3 30B of 32 experts", "Qwen3MoeForCausalLM", [2048, 6144, 32, 4, 128], 151_936, more)
}

/// A layer with a gated delta net, and one that attends.
fn hybrid(more: Value) -> Value {
    let mut all = json!({
        "layer_types": ["linear_attention", "full_attention"], "partial_rotary_factor": 0.25,
        "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_key_head_dim": 128,
        "linear_value_head_dim": 128, "tie_word_embeddings": false,
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        all[key] = value.clone();
    }
    all
}

fn qwen3_next() -> Model {
    let more = hybrid(json!({
        "num_experts": 32, "num_experts_per_tok": 10, "moe_intermediate_size": 512, "norm_topk_prob": true,
        "shared_expert_intermediate_size": 512,
    }));
    model("Qwen3-Next 80B of 32 experts", "Qwen3NextForCausalLM", [2048, 5632, 16, 2, 256], 151_936, more)
}

fn qwen3_5() -> Model {
    model("Qwen3.5 9B", "Qwen3_5ForCausalLM", [4096, 12_288, 16, 4, 256], 248_320, hybrid(json!({})))
}

/// As wide as makes the loader join matrices, read them by several threads and in several pieces.
fn small() -> Model {
    model("Qwen3 of a small vocabulary", "Qwen3ForCausalLM", [1024, 3072, 8, 4, 64], 32_000, json!({}))
}

impl Model {
    fn size(&self, key: &str) -> usize {
        self.config[key].as_u64().unwrap_or(0) as usize
    }

    fn is(&self, architecture: &str) -> bool {
        self.config["architectures"][0].as_str().is_some_and(|name| name.starts_with(architecture))
    }

    fn is_hybrid(&self) -> bool {
        self.is("Qwen3Next") || self.is("Qwen3_5")
    }

    /// Names and shapes of its weights.
    fn tensors(&self) -> Vec<(String, Vec<usize>)> {
        let [hidden, inner, vocab] = ["hidden_size", "intermediate_size", "vocab_size"].map(|key| self.size(key));
        let dim = self.size("head_dim");
        let [q, kv] = ["num_attention_heads", "num_key_value_heads"].map(|key| self.size(key) * dim);
        let mut tensors = vec![("model.embed_tokens.weight".to_owned(), vec![vocab, hidden])];
        for layer in 0..self.size("num_hidden_layers") {
            let mut add = |name: &str, shape: &[usize]| {
                tensors.push((format!("model.layers.{layer}.{name}"), shape.to_vec()));
            };
            let is_delta = self.config["layer_types"][layer] == "linear_attention";
            if is_delta {
                let [keys, values] = ["key", "value"].map(|part| {
                    self.size(&format!("linear_num_{part}_heads")) * self.size(&format!("linear_{part}_head_dim"))
                });
                let heads = self.size("linear_num_value_heads");
                let parts = match self.is("Qwen3Next") {
                    true => vec![("qkvz", 2 * (keys + values)), ("ba", 2 * heads)],
                    false => vec![("qkv", 2 * keys + values), ("z", values), ("b", heads), ("a", heads)],
                };
                for (part, rows) in parts {
                    add(&format!("linear_attn.in_proj_{part}.weight"), &[rows, hidden]);
                }
                add("linear_attn.conv1d.weight", &[2 * keys + values, 1, 4]);
                add("linear_attn.A_log", &[heads]);
                add("linear_attn.dt_bias", &[heads]);
                add("linear_attn.norm.weight", &[self.size("linear_value_head_dim")]);
                add("linear_attn.out_proj.weight", &[hidden, values]);
            }
            // Queries stand beside their gates.
            let q_rows = if self.is_hybrid() { 2 * q } else { q };
            for (name, rows) in [("q", q_rows), ("k", kv), ("v", kv)].into_iter().filter(|_| !is_delta) {
                add(&format!("self_attn.{name}_proj.weight"), &[rows, hidden]);
                if self.is("Qwen2") {
                    add(&format!("self_attn.{name}_proj.bias"), &[rows]);
                }
            }
            if !is_delta {
                add("self_attn.o_proj.weight", &[hidden, q]);
            }
            if (self.is("Qwen3") || self.is("Gemma3")) && !is_delta {
                add("self_attn.q_norm.weight", &[dim]);
                add("self_attn.k_norm.weight", &[dim]);
            }
            add("input_layernorm.weight", &[hidden]);
            add("post_attention_layernorm.weight", &[hidden]);
            if self.is("Gemma3") {
                add("pre_feedforward_layernorm.weight", &[hidden]);
                add("post_feedforward_layernorm.weight", &[hidden]);
            }
            let (mixture, experts, names, inner) = if self.is("Mixtral") {
                ("block_sparse_moe", self.size("num_local_experts"), ["w1", "w3", "w2"], inner)
            } else {
                let names = ["gate_proj", "up_proj", "down_proj"];
                let experts = self.size("num_experts");
                ("mlp", experts, names, if experts > 0 { self.size("moe_intermediate_size") } else { inner })
            };
            let shapes = [[inner, hidden], [inner, hidden], [hidden, inner]];
            if experts > 0 {
                add(&format!("{mixture}.gate.weight"), &[experts, hidden]);
            }
            let common = self.size("shared_expert_intermediate_size");
            if common > 0 {
                add("mlp.shared_expert_gate.weight", &[1, hidden]);
                for (name, shape) in names.iter().zip([[common, hidden], [common, hidden], [hidden, common]]) {
                    add(&format!("mlp.shared_expert.{name}.weight"), &shape);
                }
            }
            for expert in 0..experts {
                for (name, shape) in names.iter().zip(&shapes) {
                    add(&format!("{mixture}.experts.{expert}.{name}.weight"), shape);
                }
            }
            for (name, shape) in names.iter().zip(&shapes).filter(|_| experts == 0) {
                add(&format!("{mixture}.{name}.weight"), shape);
            }
        }
        tensors.push(("model.norm.weight".to_owned(), vec![hidden]));
        if self.config["tie_word_embeddings"] == false {
            tensors.push(("lm_head.weight".to_owned(), vec![vocab, hidden]));
        }
        tensors
    }

    /// Writes `config.json` and random weights of `bf16`.
    fn write(&self) -> Folder {
        // Two tests may have a model of the same name.
        static FOLDERS: AtomicUsize = AtomicUsize::new(0);
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("warpfold-real-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).expect("there is room for a folder");
        let folder = Folder(folder);
        fs::write(folder.0.join("config.json"), self.config.to_string()).expect("there is room for the config");
        let (tensors, mut header, mut end) = (self.tensors(), json!({}), 0);
        for (name, shape) in &tensors {
            let first = end;
            end += 2 * shape.iter().product::<usize>();
            header[name] = json!({"dtype": "BF16", "shape": shape, "data_offsets": [first, end]});
        }
        let header = header.to_string();
        let file = File::create(folder.0.join("model.safetensors")).expect("there is room for the weights");
        let mut file = BufWriter::with_capacity(1 << 20, file);
        let mut put = |bytes: &[u8]| file.write_all(bytes).expect("there is room for the weights");
        put(&(header.len() as u64).to_le_bytes());
        put(header.as_bytes());
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for (name, shape) in &tensors {
            // Factors of norms are near 1; Gemma and hybrids add the 1, but for delta nets.
            let adds = self.is("Gemma3") || self.is_hybrid() && !name.contains("linear_attn");
            let is_factor = name.ends_with("norm.weight") && !adds;
            for _ in 0..shape.iter().product::<usize>().div_ceil(4) {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                let words = [0, 16, 32, 48].map(|shift| (state >> shift) as u16);
                // Signs and magnitudes from 2^-7 to 2^-5; or from 1 to 1.25.
                let word = |word: u16| if is_factor { 0x3f80 | word & 0x1f } else { word & 0x80ff | 0x3c00 };
                put(&words.map(word).map(u16::to_le_bytes).concat());
            }
        }
        file.flush().expect("there is room for the weights");
        folder
    }
}

/// A folder that is removed in the end.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// Tokens of the prompts.
const PROMPTS: [u32; 2] = [3, 9];

/// Greedy answers to a short and a longer prompt, with the logprobs of the longer one's tokens.
fn answers(folder: &Path, device: &Device, dtype: Dtype) -> Vec<Vec<Bits>> {
    let files = ModelFiles::open(folder).expect("the files are right");
    let model = files.load(&Queue::of(device), dtype, &mut |_, _| ()).expect("the weights are right");
    let mut engine = Engine::new(model, Config { num_blocks: 64, ..Config::default() }).expect("a cache");
    let prompt = |len: u32| (0..len).map(|i| 100 + i * i * 37 % 3_000).collect::<Vec<u32>>();
    let request = |len, tokens| Request { logprobs: Some(8), ignore_eos: true, ..Request::greedy(prompt(len), tokens) };
    engine.add(request(PROMPTS[0], 2)).expect("it has room");
    engine.add(Request { prompt_logprobs: Some(8), ..request(PROMPTS[1], 2) }).expect("it has room");
    let answers = engine.run_to_end().expect("it runs");
    let bits = |sampled: &warpfold_engine::Sampled| {
        let top = sampled.top.iter().map(|(token, logprob)| (*token, logprob.to_bits())).collect();
        (sampled.token, sampled.logprob.to_bits(), top)
    };
    let outputs = answers.values().flatten();
    outputs.map(|output| output.prompt_logprobs.iter().chain(&output.tokens).map(bits).collect()).collect()
}

/// The GPU that was asked for, which has to be there, or the first one.
fn gpu() -> Option<Device> {
    if std::env::var_os("WARPFOLD_DEVICE").is_some() {
        let device = Device::from_env().expect("the device that WARPFOLD_DEVICE names is there");
        return Some(device).filter(|device| !device.is_virtual());
    }
    Device::cuda(0).ok()
}

#[track_caller]
fn check(model: &Model) {
    let Some(gpu) = gpu() else {
        println!("{}: left out, no GPU was found", model.name);
        return;
    };
    let folder = model.write();
    let start = std::time::Instant::now();
    let found = answers(&folder.0, &gpu, Dtype::Bf16);
    let on_gpu = start.elapsed();
    let profile = if gpu.arch() == Device::virtual_gpu(Profile::A100).arch() { Profile::A100 } else { Profile::H200 };
    let expected = answers(&folder.0, &Device::virtual_gpu(profile), Dtype::Bf16);
    let took = (on_gpu.as_secs_f64(), (start.elapsed() - on_gpu).as_secs_f64());
    println!("{}: {:.1} s on {gpu}, {:.1} s on the virtual GPU", model.name, took.0, took.1);
    assert_eq!(found, expected, "{} on {gpu}", model.name);
}

#[test]
fn llama_has_the_same_bits_on_both_devices() {
    check(&llama());
}

#[test]
fn mistral_has_the_same_bits_on_both_devices() {
    check(&mistral());
}

#[test]
fn qwen2_has_the_same_bits_on_both_devices() {
    check(&qwen2());
}

#[test]
fn qwen3_has_the_same_bits_on_both_devices() {
    check(&qwen3());
}

#[test]
fn the_widest_qwen3_has_the_same_bits_on_both_devices() {
    check(&qwen3_large());
}

#[test]
fn gemma3_has_the_same_bits_on_both_devices() {
    check(&gemma3());
}

#[test]
fn mixtral_has_the_same_bits_on_both_devices() {
    check(&mixtral());
}

#[test]
fn qwen3_moe_has_the_same_bits_on_both_devices() {
    check(&qwen3_moe());
}

#[test]
fn qwen3_next_has_the_same_bits_on_both_devices() {
    check(&qwen3_next());
}

#[test]
fn qwen3_5_has_the_same_bits_on_both_devices() {
    check(&qwen3_5());
}

/// The same models with narrow rows and few tokens, wherever the tests run: what a GPU is to run
/// can be read and answers.
#[test]
fn every_model_answers_when_it_is_narrow() {
    let device = Device::virtual_gpu(Profile::H200);
    let dense = [llama(), mistral(), qwen2(), qwen3(), qwen3_large(), gemma3(), qwen3_5()];
    for mut model in dense.into_iter().chain([mixtral(), qwen3_moe(), qwen3_next()]) {
        for (key, by) in [
            ("hidden_size", 16),
            ("intermediate_size", 16),
            ("moe_intermediate_size", 16),
            ("shared_expert_intermediate_size", 16),
            ("head_dim", 8),
            ("linear_key_head_dim", 8),
            ("linear_value_head_dim", 8),
        ] {
            let size = model.size(key) / by;
            if size > 0 {
                model.config[key] = json!(size);
            }
        }
        model.config["vocab_size"] = json!(4_000);
        let folder = model.write();
        let answers = answers(&folder.0, &device, Dtype::Bf16);
        let lens: Vec<usize> = answers.iter().map(Vec::len).collect();
        assert!(lens[0] == 2 && lens[1] >= PROMPTS[1] as usize, "{}: {lens:?}", model.name);
    }
}

#[test]
fn a_model_in_the_type_of_its_weights_stays_near_itself_in_f32() {
    let device = Device::virtual_gpu(Profile::H200);
    let folder = small().write();
    let [first, again, exact] = [Dtype::Bf16, Dtype::Bf16, Dtype::F32].map(|dtype| answers(&folder.0, &device, dtype));
    assert_eq!(first, again, "weights were loaded twice");
    // Tokens of the longer prompt and the first one that follows: what comes after depends on that.
    for (found, exact, known) in [(&first[0], &exact[0], 1), (&first[1], &exact[1], PROMPTS[1] as usize)] {
        for ((token, logprob, top), (exact_token, exact_logprob, exact_top)) in found.iter().zip(exact).take(known) {
            if token == exact_token {
                let off = f32::from_bits(*logprob) - f32::from_bits(*exact_logprob);
                assert!(off.abs() < 0.15, "{token}: off by {off}");
            }
            let near = exact_top.iter().filter(|(token, exact)| {
                let found = top.iter().find(|(found, _)| found == token);
                found.is_some_and(|(_, found)| (f32::from_bits(*found) - f32::from_bits(*exact)).abs() < 0.15)
            });
            assert!(2 * near.count() >= exact_top.len(), "{top:?} for {exact_top:?}");
        }
    }
}
