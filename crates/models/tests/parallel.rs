//! A model that several devices share answers as one that a single device has, bit for bit: virtual
//! ones, and with `WARPFOLD_DEVICE=cuda` GPUs, where there are so many.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use warpfold::{Device, Dtype, Profile, Queue};
use warpfold_engine::{CacheShape, Config, Engine, Model, Output, Pooling, Preemption, Request, Sampling, philox};
use warpfold_models::{ErrorKind, ModelFiles, ParallelModel, Rounding};

fn fixture(name: &str) -> ModelFiles {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/models").join(name);
    ModelFiles::open(&folder).expect("the files are right").verified()
}

/// How many GPUs there are, if they are asked for.
fn num_gpus() -> Option<usize> {
    let is_asked = std::env::var("WARPFOLD_DEVICE").is_ok_and(|name| name.starts_with("cuda"));
    is_asked.then(|| Device::num_cuda().expect("a driver"))
}

/// Groups that share GPUs give their collectives to the same streams, so tests come one by one
/// there.
fn one_by_one() -> Option<MutexGuard<'static, ()>> {
    static GPUS: Mutex<()> = Mutex::new(());
    num_gpus().map(|_| GPUS.lock().unwrap_or_else(PoisonError::into_inner))
}

fn devices_of(count: usize) -> Vec<Device> {
    match num_gpus() {
        Some(_) => (0..count).map(|ordinal| Device::cuda(ordinal).expect("so many GPUs")).collect(),
        None => Device::virtual_peers(Profile::H200, count),
    }
}

fn load(files: &ModelFiles, dtype: Dtype, devices: usize) -> ParallelModel {
    files
        .load_parallel(&devices_of(devices), dtype, &mut |done, all| assert!(done <= all))
        .expect("the model can be shared")
}

/// Prompts of several lengths, drawn and greedy, and one whose answers share blocks.
fn requests(vocab: u32) -> Vec<Request> {
    let prompt = |len: u32, seed: u32| (0..len).map(|i| (i * 37 + seed * 11) % (vocab - 2) + 2).collect::<Vec<_>>();
    let drawn = |prompt, max_tokens| Request {
        max_tokens: Some(max_tokens),
        ignore_eos: true,
        logprobs: Some(3),
        seed: Some(7),
        ..Request::new(prompt)
    };
    vec![
        drawn(prompt(11, 1), 4),
        Request { sampling: Sampling::greedy(), ..drawn(prompt(3, 2), 5) },
        Request { n: 2, ..drawn(prompt(6, 3), 3) },
        Request { seed: Some(7), ..Request::embedding(prompt(9, 4), Pooling::Mean) },
    ]
}

fn answers(model: impl Model, config: Config) -> Vec<Vec<Output>> {
    let vocab = u32::try_from(model.limits().vocab).expect("a small vocabulary");
    let mut engine = Engine::new(model, config).expect("the settings are right");
    let add = |request| engine.add(request).expect("the request is right");
    let ids: Vec<_> = requests(vocab).into_iter().map(add).collect();
    let mut answers = engine.run_to_end().expect("the model runs");
    ids.into_iter().map(|id| answers.remove(&id).expect("an answer")).collect()
}

fn settings() -> Config {
    Config { num_blocks: 32, block_size: 8, ..Config::default() }
}

#[track_caller]
fn shares(name: &str, files: &ModelFiles, dtype: Dtype, counts: &[usize]) {
    let _gpus = one_by_one();
    let expected = answers(load(files, dtype, 1), settings());
    for &count in counts {
        if num_gpus().is_some_and(|found| found < count) {
            eprintln!("skipped: {name} on {count} devices");
            continue;
        }
        assert_eq!(answers(load(files, dtype, count), settings()), expected, "{name} in {dtype} on {count} devices");
    }
}

#[test]
fn models_of_every_architecture_answer_alike_on_one_device_and_on_two() {
    for name in ["llama", "mistral", "qwen3", "gemma3", "gemma2", "olmo2", "glm4", "gguf/llama.gguf"] {
        shares(name, &fixture(name), Dtype::Bf16, &[2]);
    }
    shares("llama", &fixture("llama"), Dtype::F32, &[2]);
    shares("llama in 4 bits", &fixture("llama").rounded(Rounding::Int4).expect("there are numbers"), Dtype::Bf16, &[2]);
}

#[test]
fn devices_beyond_the_heads_of_keys_and_values_have_some_in_common() {
    shares("llama", &fixture("llama"), Dtype::F16, &[4]);
    // Norms of whole rows see each head once.
    shares("olmo2", &fixture("olmo2"), Dtype::F32, &[4]);
}

#[test]
fn a_model_of_eight_heads_answers_alike_on_1_2_4_and_8_devices() {
    let folder = wide(8, 64);
    let files = ModelFiles::open(&folder).expect("the files are right").verified();
    shares("eight heads", &files, Dtype::Bf16, &[2, 4, 8]);
    // Vocabularies that do not divide are not split; this one has biases, too.
    let odd = wide(8, 67);
    shares("67 tokens and biases", &ModelFiles::open(&odd).expect("the files are right").verified(), Dtype::F32, &[4]);
    [folder, odd].iter().for_each(|folder| std::fs::remove_dir_all(folder).expect("the folder is there"));
}

#[test]
fn experts_are_split_and_answers_stay_alike() {
    let _gpus = one_by_one();
    let folder = written(8, 64, 8);
    let eight = ModelFiles::open(&folder).expect("the files are right");
    // Steps of 29 rows and of a few, also of an odd number: rows that devices share out, and rows
    // that all of them add.
    let odd =
        Config { budget: 7, inject_preemptions: 0.3, preemption: Preemption::Recompute, num_blocks: 60, ..settings() };
    let cases = [
        (fixture("mixtral"), 2, odd),
        (fixture("gpt_oss").packed(), 2, settings()),
        (fixture("gguf_gpt_oss/model.gguf").packed(), 2, settings()),
        (eight, 8, settings()),
    ];
    for (files, count, config) in cases {
        if num_gpus().is_some_and(|found| found < count) {
            eprintln!("skipped: experts on {count} devices");
            continue;
        }
        let alone = files.load(&Queue::of(&devices_of(1)[0]), Dtype::Bf16, &mut |_, _| ()).expect("it can be loaded");
        let model = load(&files, Dtype::Bf16, count);
        assert_eq!(model.weights_digest(), alone.weights_digest());
        assert_eq!(answers(model, config), answers(alone, settings()), "{files:?} on {count} devices");
    }
    std::fs::remove_dir_all(folder).expect("the folder is there");
}

#[test]
fn the_model_that_ships_answers_alike_on_one_device_and_on_two() {
    let _gpus = one_by_one();
    let files = ModelFiles::shipped().expect("it is part of the library").verified();
    let tale = |devices| {
        let mut engine = Engine::new(load(&files, Dtype::Bf16, devices), settings()).expect("the settings are right");
        let request = Request { logprobs: Some(3), ..Request::greedy(vec![5, 80, 7, 301], 6) };
        let id = engine.add(request).expect("the request is right");
        engine.run_to_end().expect("the model runs").remove(&id)
    };
    assert_eq!(tale(1), tale(2));
}

#[test]
fn schedules_swaps_and_preemptions_change_no_bit_on_two_devices() {
    let (_gpus, files) = (one_by_one(), fixture("qwen3"));
    let expected = answers(load(&files, Dtype::Bf16, 1), settings());
    let swap = Config { inject_preemptions: 0.5, num_host_blocks: 32, preemption: Preemption::Swap, ..settings() };
    let others = [
        Config { budget: 5, block_size: 3, num_blocks: 60, ..settings() },
        Config { inject_preemptions: 0.5, preemption: Preemption::Recompute, ..settings() },
        swap,
    ];
    for config in others {
        let text = format!("{config:?}");
        assert_eq!(answers(load(&files, Dtype::Bf16, 2), config), expected, "{text}");
    }
}

#[test]
fn a_number_of_devices_that_does_not_fit_is_an_error_with_both_numbers() {
    #[track_caller]
    fn refuses(name: &str, devices: usize, expected: &str) {
        let files = fixture(name);
        let error = files.check_parallel(devices).expect_err("they cannot share it");
        assert!(error.to_string().contains(expected), "{error}");
        let loaded = files.load_parallel(&Device::virtual_peers(Profile::H200, devices), Dtype::F32, &mut |_, _| ());
        assert_eq!(loaded.expect_err("they cannot share it").to_string(), error.to_string());
    }
    refuses("llama", 8, "8 devices cannot share the model: it has 4 heads of queries");
    refuses("qwen2", 2, "2 devices cannot share the model: it has 3 heads of queries");
    refuses("llama", 3, "3 devices cannot share the model: it has 8 parts of a sum");
    refuses("llama", 0, "0 devices cannot share the model");
    refuses("qwen3_moe", 2, "2 devices cannot share the model: it has 5 experts");
    refuses("mixtral", 8, "8 devices cannot share the model: it has 4 experts");
}

#[test]
fn each_device_has_its_share_of_the_weights_and_of_the_cache() {
    let folder = wide(8, 64);
    let files = ModelFiles::open(&folder).expect("the files are right").verified();
    let on = |count| files.load_parallel(&Device::virtual_peers(Profile::H200, count), Dtype::Bf16, &mut |_, _| ());
    let [one, four] = [1, 4].map(|count| on(count).expect("the model can be shared"));
    assert_eq!(one.limits().kv_bytes_per_token, 4 * four.limits().kv_bytes_per_token);
    // The embedding is everywhere.
    let embedding = 64 * 64 * 2;
    assert!(four.weight_bytes() - embedding < (one.weight_bytes() - embedding) / 3, "{}", four.weight_bytes());
    std::fs::remove_dir_all(folder).expect("the folder is there");
}

#[test]
fn a_device_without_room_for_the_cache_is_an_error_of_the_model() {
    let _gpus = one_by_one();
    let mut model = load(&fixture("llama"), Dtype::F32, 2);
    let shape = CacheShape { block_size: 16, num_blocks: 1 << 40, num_host_blocks: 0, num_states: 0 };
    let error = model.allocate(shape).expect_err("nobody has so much memory");
    let error = error.downcast::<warpfold_models::Error>().expect("an error of the models");
    assert!(matches!(error.kind(), ErrorKind::Tensors(_)), "{error}");
}

#[test]
fn a_device_that_fails_ends_the_others_and_every_later_step_with_its_name() {
    let devices = Device::virtual_peers(Profile::H200, 2);
    let model = fixture("llama").load_parallel(&devices, Dtype::F32, &mut |_, _| ()).expect("it can be shared");
    // From here on nothing more can be built for the second device.
    devices[1].rewrite_kernels(|_| "not PTX".to_owned());
    let mut engine = Engine::new(model, settings()).expect("the settings are right");
    let start = std::time::Instant::now();
    let mut failure = || {
        engine.add(Request::greedy(vec![5, 9], 2)).expect("the request is right");
        engine.run_to_end().expect_err("a device fails").to_string()
    };
    let first = failure();
    assert!(first.contains("expected `.version`, found `not`"), "it says itself why: {first}");
    devices[1].rewrite_kernels(str::to_owned);
    let second = failure();
    assert!(second.contains("rank 1 failed: ") && second.contains("found `not`"), "{second}");
    assert!(start.elapsed() < std::time::Duration::from_secs(100), "nobody waits for it in vain");
}

/// A Llama of so many heads of queries, and as many of keys and values, with random weights, and
/// with biases where its vocabulary is odd.
fn wide(heads: usize, vocab: usize) -> PathBuf {
    written(heads, vocab, 0)
}

/// The same with experts: a Qwen3-MoE, whose first layer has none.
fn written(heads: usize, vocab: usize, experts: usize) -> PathBuf {
    let (hidden, head_dim, inner, has_bias) = (64, 8, 96, vocab % 2 == 1);
    let folder = std::env::temp_dir().join(format!("warpfold-parallel-{}-{vocab}-{experts}", std::process::id()));
    let folder = folder.join(format!("{:?}", std::thread::current().id()));
    let name = if experts > 0 { "Qwen3MoeForCausalLM" } else { "LlamaForCausalLM" };
    std::fs::create_dir_all(&folder).expect("a folder");
    let config = format!(
        r#"{{"architectures": ["{name}"], "num_experts": {experts}, "num_experts_per_tok": 3,
            "moe_intermediate_size": 24, "norm_topk_prob": true, "mlp_only_layers": [0], "hidden_size": {hidden}, "intermediate_size": {inner},
            "vocab_size": {vocab}, "num_hidden_layers": 2, "num_attention_heads": {heads}, "head_dim": {head_dim},
            "num_key_value_heads": {heads}, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu", "attention_bias": {has_bias},
            "max_position_embeddings": 128, "tie_word_embeddings": false, "eos_token_id": 0}}"#
    );
    std::fs::write(folder.join("config.json"), config).expect("a file");
    let (mut header, mut data, mut draw) = (String::new(), Vec::new(), 0);
    let mut add = |name: String, shape: &[usize]| {
        let (start, len) = (data.len(), shape.iter().product::<usize>());
        for _ in 0..len {
            draw += 1;
            let unit = philox(5, [draw, 0, 0, 0])[0] as f32 / u32::MAX as f32 - 0.5;
            let value = if shape.len() == 1 { 1.0 + 0.1 * unit } else { unit / 3.0 };
            data.extend_from_slice(&value.to_le_bytes());
        }
        let comma = if header.is_empty() { "" } else { "," };
        let end = data.len();
        write!(header, r#"{comma}"{name}":{{"dtype":"F32","shape":{shape:?},"data_offsets":[{start},{end}]}}"#)
            .expect("a text");
    };
    add("model.embed_tokens.weight".to_owned(), &[vocab, hidden]);
    add("model.norm.weight".to_owned(), &[hidden]);
    add("lm_head.weight".to_owned(), &[vocab, hidden]);
    for layer in 0..2 {
        let mut part = |name: &str, shape: &[usize]| add(format!("model.layers.{layer}.{name}.weight"), shape);
        part("input_layernorm", &[hidden]);
        part("post_attention_layernorm", &[hidden]);
        ["q", "k", "v"].iter().for_each(|of| part(&format!("self_attn.{of}_proj"), &[heads * head_dim, hidden]));
        part("self_attn.o_proj", &[hidden, heads * head_dim]);
        if has_bias {
            ["q", "k", "v", "o"].iter().for_each(|of| {
                let len = if *of == "o" { hidden } else { heads * head_dim };
                add(format!("model.layers.{layer}.self_attn.{of}_proj.bias"), &[len]);
            });
        }
        let mut part = |name: &str, shape: &[usize]| add(format!("model.layers.{layer}.{name}.weight"), shape);
        if experts > 0 {
            ["q", "k"].iter().for_each(|of| part(&format!("self_attn.{of}_norm"), &[head_dim]));
        }
        let mut mlp = |name: &str, inner: usize| {
            ["gate", "up"].iter().for_each(|of| part(&format!("{name}.{of}_proj"), &[inner, hidden]));
            part(&format!("{name}.down_proj"), &[hidden, inner]);
        };
        if layer == 0 || experts == 0 {
            mlp("mlp", inner);
            continue;
        }
        (0..experts).for_each(|expert| mlp(&format!("mlp.experts.{expert}"), 24));
        part("mlp.gate", &[experts, hidden]);
    }
    let header = format!("{{{header}}}");
    let bytes = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat();
    std::fs::write(folder.join("model.safetensors"), bytes).expect("a file");
    folder
}
