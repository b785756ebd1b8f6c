//! What devices hold, byte by byte, against a reading of the same files that shares no code with
//! the library: every architecture, format and type, on both sides of every threshold of the
//! loader, whole and split.
//!
//! `written` writes the models, `reference` reads them.

mod reference;
mod written;

use std::collections::BTreeMap;
use std::fs;

use warpfold::{Device, Dtype, Profile, Queue};
use warpfold_collectives::Group;
use warpfold_engine::{Config, Engine, Request};
use warpfold_kernels::digest::Digest;

use super::{Placed, WeightsDigest};
use crate::error::ErrorKind;
use crate::files::Reading;
use crate::layers::Shard;
use crate::{Error, LanguageModel, ModelFiles};
use written::{Kind, Model, Sharing, Stored, Written};

/// Devices that a model is split over; `None` is a model that is not split.
type Split = Option<usize>;

const SPLITS: [Split; 5] = [None, Some(1), Some(2), Some(4), Some(8)];
const DTYPES: [Dtype; 3] = [Dtype::Bf16, Dtype::F32, Dtype::F16];

/// Thresholds on both sides of pieces of 256 to 2,048 bytes (eight lines of a small model), of the
/// matrices of 2 to 64 KiB that they are part of, and of how many there are: 2 to 32.
const READINGS: [Reading; 8] = [
    Reading::SHIPPED,
    // Each piece is large, and so is each part of one in a stage.
    Reading { threads: 4, large_bytes: 256, stage_bytes: 32 << 20 },
    // Pieces are small, matrices large.
    Reading { threads: 4, large_bytes: 4 << 10, stage_bytes: 32 << 20 },
    // Fewer pieces than threads, threads that get unlike shares.
    Reading { threads: 7, large_bytes: 2049, stage_bytes: 32 << 20 },
    Reading { threads: 32, large_bytes: 2048, stage_bytes: 32 << 20 },
    // Stages end inside of a piece, and of a line.
    Reading { threads: 3, large_bytes: 1500, stage_bytes: 2052 },
    // Of exactly a matrix, a piece, or less than a line.
    Reading { threads: 4, large_bytes: 4 << 10, stage_bytes: 8 << 10 },
    Reading { threads: 2, large_bytes: 64, stage_bytes: 100 },
];

fn open(written: &Written, reading: Reading) -> ModelFiles {
    let mut files = ModelFiles::open(&written.path).expect("the files are right");
    files.checkpoint.reading = reading;
    files.verified()
}

/// What each device holds.
fn load(files: &ModelFiles, dtype: Dtype, split: Split) -> Result<Vec<Vec<Placed>>, Error> {
    let devices = Device::virtual_peers(Profile::H200, split.unwrap_or(1));
    let mut progress = |done: u64, all: u64| assert!(done <= all);
    let mut load = |device, shard| files.load_shard(&Queue::of(device), dtype, shard, &mut progress);
    let mut loaded: Vec<(LanguageModel, Vec<Placed>)> = Vec::new();
    if split.is_none() {
        loaded.push(load(&devices[0], None)?);
    } else {
        for (device, communicator) in devices.iter().zip(Group::new(devices.clone())?.communicators()?) {
            loaded.push(load(device, Some(Shard::new(communicator, files.config())?))?);
        }
    }
    Ok(loaded.into_iter().map(|(_, placed)| placed).collect())
}

/// Compares each byte that a device holds with the files, and sees that all are there.
#[track_caller]
fn compare(case: &str, written: &Written, held: &[Vec<Placed>]) {
    let mut seen: BTreeMap<&str, (Vec<u8>, Vec<bool>)> = BTreeMap::new();
    for Placed { name, held, view, first, strides } in held.iter().flatten() {
        let tensor = written.tensors.get(name).unwrap_or_else(|| panic!("{case}: there is no {name}"));
        let (expected, found) = seen.entry(name).or_insert_with(|| {
            let expected = reference::elements(tensor, held.dtype, held.plus_one);
            (expected, vec![false; tensor.shape.iter().product()])
        });
        let (size, bytes) =
            (held.dtype.bytes() as usize, view.tensor().and_then(|view| Ok(view.to_bytes()?)).expect("bytes"));
        for (i, element) in bytes.chunks_exact(size).enumerate() {
            let (mut rest, mut place) = (i, *first as usize);
            for (size, stride) in view.shape().iter().zip(strides).rev() {
                place += rest % size * *stride as usize;
                rest /= size;
            }
            let expected = &expected[place * size..][..size];
            assert!(element == expected, "{case}: {name}: element {place} is {element:02x?}, not {expected:02x?}");
            found[place] = true;
        }
    }
    for (name, tensor) in &written.tensors {
        let is_norm = tensor.shape.len() == 1 && name.ends_with("weight");
        let missing = seen.get(name.as_str()).map_or(Some(0), |(_, found)| found.iter().position(|found| !found));
        assert_eq!(missing, None, "{case}: {name} is not all there");
        let dtypes: Vec<_> = held.iter().flatten().filter(|of| of.name == *name).map(|of| of.held.dtype).collect();
        assert!(!is_norm || dtypes.iter().all(|dtype| *dtype == Dtype::F32), "{case}: {name}: {dtypes:?}");
    }
}

/// The digest of the model, by its definition.
fn digest_of(written: &Written, held: &[Vec<Placed>]) -> u64 {
    let mut model = super::Fnv::default();
    for (name, tensor) in &written.tensors {
        let held = held.iter().flatten().find(|placed| placed.name == *name).expect("it is there").held;
        let elements = reference::elements(tensor, held.dtype, held.plus_one);
        let bits = |bytes: &[u8]| bytes.iter().rev().fold(0, |bits, byte| bits << 8 | u64::from(*byte));
        let elements = (0_u64..).zip(elements.chunks_exact(held.dtype.bytes() as usize));
        let sum = elements.fold(0_u64, |sum, (i, x)| sum.wrapping_add(bits(x).wrapping_mul(Digest::key(i))));
        model.push(format!("{name}\0{}", held.dtype).as_bytes());
        model.push(&sum.to_le_bytes());
    }
    model.0
}

/// Loads a model split in every way that it can be, each time in another type and with other
/// thresholds; `number` says with which it begins.
#[track_caller]
fn check(what: &str, number: usize, model: &Model, written: &Written) {
    let mut digests = BTreeMap::new();
    for (turn, split) in SPLITS.into_iter().enumerate() {
        let (dtype, reading) = (DTYPES[(number + turn / 2) % 3], READINGS[(number + turn) % READINGS.len()]);
        let files = open(written, reading);
        // Blocks stay as they are in every other turn.
        let is_packed = (turn + number).is_multiple_of(2);
        let files = if is_packed { files.packed() } else { files };
        if split.is_some_and(|count| files.check_parallel(count).is_err()) {
            continue;
        }
        let case = format!("{what}: {model:?} in {dtype} on {split:?} with {reading:?}, packed: {is_packed}");
        let held = load(&files, dtype, split).unwrap_or_else(|error| panic!("{case}: {error}"));
        compare(&case, written, &held);
        let digest = WeightsDigest::of(files.checkpoint(), &held).unwrap_or_else(|error| panic!("{case}: {error}"));
        let expected = *digests.entry(dtype).or_insert_with(|| digest_of(written, &held));
        assert_eq!(digest, WeightsDigest(expected), "{case}");
    }
    assert!(digests.len() >= 2, "{what}: {model:?} is loaded in several ways");
}

/// Models of an architecture: tied and not, with MLPs in eights and others, with a vocabulary that
/// can be split and one that cannot.
fn models(architecture: &'static str) -> [Model; 4] {
    let tied = Model::small(architecture);
    let untied = Model { is_tied: false, intermediate: 192, heads: 8, kv_heads: 8, ..tied.clone() };
    let odd = Model { is_tied: false, intermediate: 100, vocab: 67, ..tied.clone() };
    // In eights on one device alone.
    let narrow = Model { intermediate: 72, ..tied.clone() };
    [tied, untied, odd, narrow]
}

/// Whether a pair of a type and a model is tried: a third of them, with each type and each model
/// among them, or all with `WARPFOLD_ALL_TESTS` set.
fn is_tried(number: usize) -> bool {
    std::env::var_os("WARPFOLD_ALL_TESTS").is_some() || number.is_multiple_of(3)
}

#[track_caller]
fn check_safetensors(architecture: &'static str) {
    let stored = [
        Stored::Plain(Kind::F32),
        Stored::Plain(Kind::F16),
        Stored::Plain(Kind::Bf16),
        Stored::Scaled(Sharing::All),
        Stored::Scaled(Sharing::Rows),
        Stored::Scaled(Sharing::Blocks),
    ];
    for (number, stored) in stored.into_iter().enumerate() {
        for (i, model) in models(architecture).into_iter().enumerate().filter(|(i, _)| is_tried(number + i)) {
            let files = [1, 3][(number + i) % 2];
            let written = model.safetensors(stored, files);
            check(&format!("{stored:?} in {files} file(s)"), 4 * number + i, &model, &written);
        }
    }
}

#[test]
fn a_device_holds_what_safetensors_of_a_llama_say() {
    check_safetensors("Llama");
}

#[test]
fn a_device_holds_what_safetensors_of_a_mistral_say() {
    check_safetensors("Mistral");
}

#[test]
fn a_device_holds_what_safetensors_of_a_qwen2_say() {
    check_safetensors("Qwen2");
}

#[test]
fn a_device_holds_what_safetensors_of_a_qwen3_say() {
    check_safetensors("Qwen3");
}

#[test]
fn a_device_holds_what_safetensors_of_a_gemma3_say() {
    check_safetensors("Gemma3");
}

#[test]
fn a_device_holds_what_safetensors_of_a_mixtral_say() {
    check_safetensors("Mixtral");
}

#[test]
fn a_device_holds_what_safetensors_of_a_qwen3_moe_say() {
    check_safetensors("Qwen3Moe");
}

#[test]
fn blocks_stay_as_they_are_where_they_are_wanted_so() {
    for (kind, bits) in [(Kind::Q8_0, 8.5), (Kind::Q4_0, 4.5), (Kind::Q4_1, 5.0), (Kind::Q5_0, 5.5), (Kind::Q4K, 4.75)]
    {
        let model = Model { hidden: 256, intermediate: 256, head_dim: 32, vocab: 128, ..Model::small("Qwen3") };
        let written = model.gguf(kind);
        let elements: usize = written.tensors.values().map(|tensor| tensor.shape.iter().product::<usize>()).sum();
        let queue = Queue::of(&Device::virtual_gpu(Profile::H200));
        let bytes = |files: ModelFiles| {
            let model = files.load(&queue, Dtype::Bf16, &mut |_, _| ()).expect("weights");
            assert!(files.weight_bytes(Dtype::Bf16).abs_diff(model.weight_bytes()) < 1 << 14, "{kind:?}");
            model.weight_bytes() as f64
        };
        let [converted, packed] =
            [bytes(open(&written, Reading::SHIPPED)), bytes(open(&written, Reading::SHIPPED).packed())];
        assert!((converted / elements as f64 - 2.0).abs() < 0.02, "{kind:?}: {converted} bytes of {elements}");
        let found = 8.0 * packed / elements as f64;
        assert!((found - bits).abs() < 0.2, "{kind:?}: {found} bits");
    }
}

#[test]
fn devices_that_share_sums_of_blocks_answer_with_the_bits_of_converted_ones() {
    let model = Model { hidden: 256, intermediate: 256, layers: 1, head_dim: 32, ..Model::small("Llama") };
    let written = model.gguf(Kind::Q4_0);
    let answer = |count: usize, is_packed: bool| {
        let files = open(&written, Reading::SHIPPED);
        let files = if is_packed { files.packed() } else { files };
        let devices = Device::virtual_peers(Profile::H200, count);
        let model = files.load_parallel(&devices, Dtype::Bf16, &mut |_, _| ()).expect("weights");
        let bytes = model.weight_bytes();
        let mut engine = Engine::new(model, Config { num_blocks: 8, ..Config::default() }).expect("an engine");
        let request = Request { logprobs: Some(5), ..Request::greedy(vec![5, 20, 7], 3) };
        let id = engine.add(request).expect("the request is right");
        (engine.run_to_end().expect("the model runs").remove(&id).expect("an answer"), bytes)
    };
    let (expected, converted_bytes) = answer(2, false);
    for count in [1, 2, 4] {
        let (found, bytes) = answer(count, true);
        assert_eq!(found, expected, "{count} devices");
        // Parts of so few columns are mostly padding.
        assert!(count < 2 || bytes < converted_bytes, "{count} devices: {bytes} and {converted_bytes} bytes");
    }
}

#[test]
fn a_device_holds_what_gguf_files_say() {
    let kinds =
        [Kind::F32, Kind::F16, Kind::Bf16, Kind::Q8_0, Kind::Q4_0, Kind::Q4_1, Kind::Q5_0, Kind::Q4K, Kind::Q6K];
    for (number, kind) in kinds.into_iter().enumerate() {
        let architectures = ["Llama", "Qwen2", "Qwen3", "Gemma3"].into_iter().enumerate();
        for (i, architecture) in architectures.filter(|(i, _)| is_tried(number + i)) {
            let is_tied = (number + i) % 2 == 0;
            let small = Model { is_tied, intermediate: if is_tied { 128 } else { 96 }, ..Model::small(architecture) };
            let model = match kind {
                // Their blocks have 256 elements, of which eight devices have an eighth each.
                Kind::Q4K | Kind::Q6K => Model { hidden: 256, intermediate: 256, layers: 1, head_dim: 32, ..small },
                // Each of eight parts of K is a block, which stays as it is.
                Kind::Q4_0 => Model { hidden: 256, intermediate: 256, layers: 1, head_dim: 32, ..small },
                _ => small,
            };
            let written = model.gguf(kind);
            check(&format!("GGUF of {kind:?}"), number + 2 * i, &model, &written);
        }
    }
}

/// A model of the size of those that people use, but for its layers and its words.
fn real(architecture: &'static str) -> Model {
    let (vocab, hidden, intermediate) = (2048, 1024, 6144);
    Model { vocab, hidden, intermediate, layers: 1, head_dim: 64, kv_heads: 4, ..Model::small(architecture) }
}

#[test]
fn matrices_of_real_size_are_loaded_as_they_are() {
    let cases = [
        // Gate and up: 768 pieces of 16 KiB in 25 MB; the head is large by itself.
        (real("Qwen3"), Stored::Plain(Kind::Bf16), Dtype::Bf16, None),
        (Model { is_tied: false, ..real("Llama") }, Stored::Plain(Kind::F16), Dtype::F16, Some(2)),
        // 50 MB, in two stages.
        (real("Llama"), Stored::Plain(Kind::F32), Dtype::F32, None),
        (real("Mistral"), Stored::Plain(Kind::F32), Dtype::Bf16, None),
    ];
    for (model, stored, dtype, split) in cases {
        let (written, case) =
            (model.safetensors(stored, 1), format!("{model:?} of {stored:?} in {dtype} on {split:?}"));
        let files = open(&written, Reading::SHIPPED);
        let held = load(&files, dtype, split).expect("there is room");
        compare(&case, &written, &held);
        WeightsDigest::of(files.checkpoint(), &held).unwrap_or_else(|error| panic!("{case}: {error}"));
    }
}

#[test]
fn threads_that_load_from_the_same_files_at_once_get_the_same_weights() {
    let small = Model { layers: 6, ..Model::small("Llama") };
    let cases = [(real("Qwen3"), Reading::SHIPPED, 1), (small, READINGS[2], 10)];
    for (model, reading, times) in cases {
        let written = model.safetensors(Stored::Plain(Kind::Bf16), 1);
        let files = open(&written, reading);
        for _ in 0..times {
            let loaded: Vec<_> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..3).map(|_| scope.spawn(|| load(&files, Dtype::Bf16, None))).collect();
                threads.into_iter().map(|thread| thread.join().expect("it does not panic").expect("weights")).collect()
            });
            loaded.iter().for_each(|held| compare(&format!("{model:?}"), &written, held));
        }
    }
}

#[test]
fn what_a_device_does_not_hold_as_the_file_says_it_is_an_error_that_names_the_tensor() {
    let model = Model::small("Llama");
    for (split, name) in
        [(None, "model.layers.1.mlp.up_proj.weight"), (Some(4), "model.layers.0.self_attn.k_proj.weight")]
    {
        let written = model.safetensors(Stored::Plain(Kind::Bf16), 1);
        let files = open(&written, Reading::SHIPPED);
        let held = load(&files, Dtype::Bf16, split).expect("weights");
        WeightsDigest::of(files.checkpoint(), &held).expect("they are those of the file");
        // The lowest bit of the last element.
        let tensor = &written.tensors[name];
        let mut bytes = fs::read(&tensor.file).expect("a file");
        bytes[tensor.start + 2 * (tensor.shape.iter().product::<usize>() - 1)] ^= 1;
        fs::write(&tensor.file, bytes).expect("a file");
        let error = WeightsDigest::of(files.checkpoint(), &held).expect_err("the file has changed");
        let ErrorKind::Weights { tensor, .. } = error.kind() else { panic!("{error}") };
        assert_eq!(tensor, name);
        assert!(
            error
                .to_string()
                .contains(&format!("tensor {name}: the device does not hold what the file says: its digest there is ")),
            "{error}"
        );
    }
}

#[test]
fn parts_that_no_device_has_and_copies_that_differ_are_errors() {
    let written = Model::small("Qwen3").safetensors(Stored::Plain(Kind::F32), 1);
    let files = open(&written, Reading::SHIPPED);
    let reason = |held: &[Vec<Placed>]| WeightsDigest::of(files.checkpoint(), held).expect_err("a fault").to_string();
    let mut held = load(&files, Dtype::F32, Some(2)).expect("weights");
    let lost = held[1].iter().position(|of| of.name.ends_with("0.self_attn.o_proj.weight")).expect("it is there");
    let lost = held[1].swap_remove(lost);
    let error = reason(&held);
    assert!(
        error.contains("0.self_attn.o_proj.weight: ")
            && error.ends_with("2048 elements are there, and 4096 in the file"),
        "{error}"
    );
    held[1].push(lost);
    // The same norm everywhere, but for one device that has another in its place.
    let of = |held: &[Placed], name: &str| held.iter().position(|of| of.name == name).expect("it is there");
    let (one, other) = (of(&held[1], "model.layers.0.input_layernorm.weight"), of(&held[1], "model.norm.weight"));
    held[1][one].view = held[1][other].view.clone();
    let error = reason(&held);
    assert!(error.contains("0.input_layernorm.weight: ") && error.contains("two devices have other values"), "{error}");
}
