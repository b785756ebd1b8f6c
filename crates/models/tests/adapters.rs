//! Low-rank adapters: beside each other in a batch, against merged weights, and wrong ones.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value, json};
use warpfold::{Device, Dtype, Profile, Queue};
use warpfold_engine::{Adapter, Config, Engine, Output, Request};
use warpfold_models::{AdapterRoom, AdapterWeights, LanguageModel, ModelFiles, Steps};

/// A tensor of a file.
#[derive(Clone)]
struct Values {
    shape: Vec<usize>,
    values: Vec<f32>,
}

type Tensors = BTreeMap<String, Values>;

/// A folder of the test's own, gone with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("warpfold-adapters-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The folder of the model that most tests adapt.
fn fixture() -> PathBuf {
    fixture_of("qwen3")
}

fn fixture_of(model: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/models").join(model)
}

/// The tensors of a model, which are stored as bf16.
fn base(model: &str) -> Tensors {
    let bytes = fs::read(fixture_of(model).join("model.safetensors")).expect("the fixture");
    let len = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes")) as usize;
    let header: Map<String, Value> = serde_json::from_slice(&bytes[8..8 + len]).expect("JSON");
    let of = |value: &Value| {
        let sizes = |value: &Value| -> Vec<usize> {
            value.as_array().expect("a list").iter().map(|n| n.as_u64().expect("a size") as usize).collect()
        };
        let place = sizes(&value["data_offsets"]);
        let data = &bytes[8 + len..][place[0]..place[1]];
        let values = data.chunks_exact(2).map(|x| f32::from_bits(u32::from(u16::from_le_bytes([x[0], x[1]])) << 16));
        Values { shape: sizes(&value["shape"]), values: values.collect() }
    };
    header.iter().map(|(name, value)| (name.clone(), of(value))).collect()
}

fn write(path: &Path, tensors: &Tensors) {
    let (mut header, mut data) = (Map::new(), Vec::new());
    for (name, Values { shape, values }) in tensors {
        let start = data.len();
        data.extend(values.iter().flat_map(|x| x.to_le_bytes()));
        header.insert(name.clone(), json!({"dtype": "F32", "shape": shape, "data_offsets": [start, data.len()]}));
    }
    let text = Value::Object(header).to_string();
    fs::write(path, [&(text.len() as u64).to_le_bytes(), text.as_bytes(), &data].concat()).expect("a file");
}

/// Eighths from -1/2 to 3/8, so that products are exact.
fn eighths(len: usize, seed: usize) -> Vec<f32> {
    let of = |i: usize| ((i * 2_654_435_761 + seed * 40_503 + (i >> 3) * seed) >> 7) % 8;
    (0..len).map(|i| of(i) as f32 / 8.0 - 0.5).collect()
}

/// The matrices of an adapter of some of the model's, in a folder as PEFT writes it, and the
/// model's tensors with their product.
fn adapter(folder: &Folder, rank: usize, targets: &[&str], seed: usize) -> Tensors {
    adapter_of("qwen3", folder, rank, targets, seed)
}

fn adapter_of(model: &str, folder: &Folder, rank: usize, targets: &[&str], seed: usize) -> Tensors {
    let (mut merged, mut tensors) = (base(model), Tensors::new());
    let names: Vec<String> = merged.keys().filter(|name| targets.iter().any(|t| name.contains(t))).cloned().collect();
    assert!(!names.is_empty());
    for (i, name) in names.iter().enumerate() {
        let weight = merged.get_mut(name).expect("it is there");
        let (outputs, inputs) = (weight.shape[0], weight.shape[1]);
        let (down, up) = (eighths(rank * inputs, seed + i), eighths(outputs * rank, seed + 7 * i + 1));
        // Twice the rank over the rank, and a 32nd, which is exact as well.
        for (o, line) in weight.values.chunks_exact_mut(inputs).enumerate() {
            for (k, value) in line.iter_mut().enumerate() {
                let product: f32 = (0..rank).map(|r| up[o * rank + r] * down[r * inputs + k]).sum();
                *value += product / 32.0;
            }
        }
        let name = format!("base_model.model.{}", name.strip_suffix(".weight").expect("a weight"));
        tensors.insert(format!("{name}.lora_A.weight"), Values { shape: vec![rank, inputs], values: down });
        tensors.insert(format!("{name}.lora_B.weight"), Values { shape: vec![outputs, rank], values: up });
    }
    let config = json!({"peft_type": "LORA", "r": rank, "lora_alpha": rank as f64 / 32.0, "bias": "none",
        "target_modules": targets, "use_dora": false, "modules_to_save": null, "rank_pattern": {}});
    fs::write(folder.0.join("adapter_config.json"), config.to_string()).expect("a file");
    write(&folder.0.join("adapter_model.safetensors"), &tensors);
    merged
}

fn load(files: ModelFiles, dtype: Dtype) -> LanguageModel {
    let queue = Queue::of(&Device::virtual_gpu(Profile::H200));
    files.load(&queue, dtype, &mut |_, _| ()).expect("the weights are right")
}

fn engine(model: LanguageModel) -> Engine<LanguageModel> {
    let config = Config { num_blocks: 64, block_size: 8, ..Config::default() };
    Engine::new(model, config).expect("the settings are right")
}

/// An engine with adapters in its places.
fn adapted(dtype: Dtype, room: AdapterRoom, folders: &[&Folder]) -> Engine<LanguageModel> {
    adapted_of("qwen3", dtype, room, folders)
}

fn adapted_of(model: &str, dtype: Dtype, room: AdapterRoom, folders: &[&Folder]) -> Engine<LanguageModel> {
    let files = ModelFiles::open(&fixture_of(model)).expect("the files are right").with_adapters(room);
    let mut engine = engine(load(files, dtype));
    for (slot, folder) in folders.iter().enumerate() {
        let weights = AdapterWeights::open(&folder.0).expect("the adapter is right");
        engine.load_adapter(&of_slot(slot), &weights).expect("there is room");
    }
    engine
}

fn of_slot(slot: usize) -> Adapter {
    Adapter { slot: slot as u32, id: slot as u64 }
}

/// Answers to the same prompt by each of these adapters, all in one batch.
fn answers(engine: &mut Engine<LanguageModel>, adapters: &[Option<usize>]) -> Vec<Output> {
    let ask = |adapter: &Option<usize>| {
        let adapter = adapter.map(|slot| Arc::new(of_slot(slot)));
        let request = Request { adapter, logprobs: Some(3), ..Request::greedy((40..60).collect(), 5) };
        engine.add(Request { ignore_eos: true, seed: Some(1), ..request }).expect("the request is right")
    };
    let ids: Vec<_> = adapters.iter().map(ask).collect();
    let mut answers = engine.run_to_end().expect("the model runs");
    ids.into_iter().map(|id| answers.remove(&id).expect("an answer").remove(0)).collect()
}

const ALL: &[&str] = &["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"];

#[test]
fn the_bits_of_an_answer_do_not_depend_on_the_adapters_beside_it() {
    let folders = ["one", "two", "three"].map(Folder::new);
    adapter(&folders[0], 8, ALL, 1);
    adapter(&folders[1], 16, &["q_proj", "v_proj"], 2);
    adapter(&folders[2], 13, &["up_proj", "down_proj", "k_proj"], 3);
    let room = AdapterRoom { adapters: 4, rank: 16 };
    for dtype in [Dtype::Bf16, Dtype::F32] {
        let files = ModelFiles::open(&fixture()).expect("the files are right");
        let plain = answers(&mut engine(load(files, dtype)), &[None]).remove(0);
        let mut engine = adapted(dtype, room, &folders.each_ref());
        let mixed = [Some(0), None, Some(2), Some(1), Some(0), None];
        let together = answers(&mut engine, &mixed);
        for (adapter, found) in mixed.iter().zip(&together) {
            // A prefix of another adapter's is in the cache by now, and is not taken.
            let alone = answers(&mut engine, &[*adapter]).remove(0);
            assert_eq!(*found, alone, "{adapter:?} in {dtype}");
        }
        assert_eq!(together[1], plain, "there is room for adapters, and none is asked for");
        for (i, j) in [(0, 1), (1, 2), (2, 3), (0, 3)] {
            assert_ne!(together[i].tokens, together[j].tokens, "answers {i} and {j}");
        }
    }
}

#[test]
fn an_adapter_answers_as_weights_that_it_is_merged_into() {
    let heads = &["q_proj", "k_proj", "v_proj"][..];
    // The rows of GLM's heads are computed with in another order than they are stored in.
    let cases =
        [("qwen3", 8, ALL), ("qwen3", 64, heads), ("qwen3", 256, &["gate_proj", "o_proj"][..]), ("glm4", 16, heads)];
    for (model, rank, targets) in cases {
        let folders = [Folder::new(&format!("adapter-{rank}")), Folder::new(&format!("merged-{rank}"))];
        let targets: Vec<_> = targets.iter().map(|target| format!("{target}.weight")).collect();
        let targets: Vec<_> = targets.iter().map(String::as_str).collect();
        let merged = adapter_of(model, &folders[0], rank, &targets, rank);
        fs::copy(fixture_of(model).join("config.json"), folders[1].0.join("config.json")).expect("a file");
        write(&folders[1].0.join("model.safetensors"), &merged);
        let files = ModelFiles::open(&folders[1].0).expect("the files are right");
        let expected = answers(&mut engine(load(files, Dtype::F32)), &[None]).remove(0);
        // In the last of several places: the others are empty.
        let room = AdapterRoom { adapters: 2, rank };
        let mut engine = adapted_of(model, Dtype::F32, room, &[&folders[0], &folders[0]]);
        let found = answers(&mut engine, &[Some(1)]).remove(0);
        assert_eq!(found.ids(), expected.ids(), "{model}, rank {rank}");
        for (found, expected) in found.tokens.iter().zip(&expected.tokens) {
            assert!(
                (found.logprob - expected.logprob).abs() < 1e-3,
                "{model}, rank {rank}: {found:?}, not {expected:?}"
            );
        }
    }
}

#[test]
fn a_place_takes_another_adapter() {
    let folders = ["first", "second"].map(Folder::new);
    adapter(&folders[0], 8, ALL, 4);
    adapter(&folders[1], 8, &["v_proj"], 5);
    let room = AdapterRoom { adapters: 1, rank: 8 };
    let mut replaced = adapted(Dtype::Bf16, room, &[&folders[0]]);
    answers(&mut replaced, &[Some(0)]);
    let weights = AdapterWeights::open(&folders[1].0).expect("the adapter is right");
    let second = Adapter { slot: 0, id: 9 };
    replaced.load_adapter(&second, &weights).expect("there is room");
    let request = Request { adapter: Some(Arc::new(second)), ..Request::greedy((40..60).collect(), 5) };
    let request = Request { logprobs: Some(3), ignore_eos: true, seed: Some(1), ..request };
    let id = replaced.add(request).expect("the request is right");
    let found = replaced.run_to_end().expect("the model runs").remove(&id).expect("an answer").remove(0);
    assert_eq!(found, answers(&mut adapted(Dtype::Bf16, room, &[&folders[1]]), &[Some(0)]).remove(0));
}

#[test]
fn a_model_with_room_for_adapters_is_warmed_up() {
    let files = ModelFiles::open(&fixture()).expect("the files are right");
    let queue = Queue::of(&Device::virtual_gpu(Profile::H200));
    let steps = Steps { budget: 16, max_seqs: 2, longest: 64, block_size: 16 };
    let kernels = |files: &ModelFiles| {
        let warm_up = files.warm_up(&queue, Dtype::Bf16, steps).expect("steps can be planned");
        warm_up.finish().expect("kernels can be compiled").kernels
    };
    let plain = kernels(&files);
    assert!(kernels(&files.with_adapters(AdapterRoom { adapters: 2, rank: 16 })) > plain);
}

#[test]
fn adapters_that_are_wrong_are_refused() {
    let folder = Folder::new("wrong");
    adapter(&folder, 8, &["q_proj"], 6);
    let config_path = folder.0.join("adapter_config.json");
    let config: Value = serde_json::from_slice(&fs::read(&config_path).expect("a file")).expect("JSON");
    let told = || AdapterWeights::open(&folder.0).expect_err("it is wrong").to_string();
    let cases = [
        ("peft_type", json!("IA3"), "an adapter of type IA3"),
        ("use_dora", json!(true), "an adapter with use_dora"),
        ("bias", json!("all"), "an adapter with biases (all)"),
        ("modules_to_save", json!(["lm_head"]), "an adapter with modules_to_save"),
        ("rank_pattern", json!({"q_proj": 4}), "an adapter with rank_pattern"),
        ("r", json!(0), "r: 0 is not from 1 to 256"),
        ("r", json!(257), "r: 257 is not from 1 to 256"),
        ("r", json!(4), "and their rank is 4"),
        ("lora_alpha", Value::Null, "lora_alpha: it is missing"),
    ];
    for (field, value, expected) in cases {
        let mut config = config.clone();
        config[field] = value;
        fs::write(&config_path, config.to_string()).expect("a file");
        assert!(told().contains(expected), "{field}: {}", told());
    }
    fs::write(&config_path, config.to_string()).expect("a file");
    // Tensors of the file, changed: of the adapter itself, or of what the model has.
    let path = folder.0.join("adapter_model.safetensors");
    let (name, of) = ("base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight", |shape: [usize; 2]| Values {
        shape: shape.to_vec(),
        values: vec![0.0; shape[0] * shape[1]],
    });
    let up = name.replace("lora_A", "lora_B");
    let pair = |down, above| Tensors::from([(name.to_owned(), of(down)), (up.clone(), of(above))]);
    write(&path, &Tensors::from([(name.to_owned(), of([8, 32]))]));
    assert!(told().contains("lora_B.weight: it is missing"), "{}", told());
    write(&path, &Tensors::from([("lm_head.weight".to_owned(), of([8, 32]))]));
    assert!(told().contains("tensor lm_head.weight: it is none of lora_A.weight"), "{}", told());
    let files = ModelFiles::open(&fixture()).expect("the files are right");
    let mut engine = engine(load(files.with_adapters(AdapterRoom { adapters: 1, rank: 8 }), Dtype::F32));
    let mut refused = |tensors: &Tensors, slot: usize| {
        write(&path, tensors);
        let weights = AdapterWeights::open(&folder.0).expect("the file is right");
        engine.load_adapter(&of_slot(slot), &weights).expect_err("it does not fit").to_string()
    };
    let error = refused(&pair([8, 31], [96, 8]), 0);
    assert!(
        error.contains("its matrices are [[8, 31], [96, 8]], the model's weights need [[8, 32], [96, 8]]"),
        "{error}"
    );
    assert_eq!(refused(&pair([8, 32], [96, 8]), 1), "the model has no room for this adapter");
    let renamed = |name: &str| name.replace("q_proj", "r_proj");
    let other = pair([8, 32], [96, 8]).into_iter().map(|(name, values)| (renamed(&name), values)).collect();
    let error = refused(&other, 0);
    assert!(error.contains("tensor model.layers.0.self_attn.r_proj: the model has no such matrix"), "{error}");
    let mut large = config;
    large["r"] = 16.into();
    fs::write(&config_path, large.to_string()).expect("a file");
    let error = refused(&pair([16, 32], [96, 16]), 0);
    assert!(error.contains("its rank is 16, and there is room for 8"), "{error}");
}
