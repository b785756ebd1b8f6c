//! Files that are right, wrong, truncated and hostile.

use std::fs;
use std::ops::Range;
use std::path::PathBuf;

use serde_json::Value;

use super::*;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/models").join(name)
}

/// A file of this content, gone with the test's process.
fn temporary(name: &str, content: &[u8]) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("warpfold-models-{}-{name}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder for the test");
    fs::write(folder.join("model.safetensors"), content).expect("a file for the test");
    folder
}

fn safetensors(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat()
}

#[test]
fn blocks_hold_what_another_reader_finds_in_them() {
    let text = fs::read_to_string(fixture("gguf/blocks.json")).expect("the fixture");
    let cases: BTreeMap<String, Value> = serde_json::from_str(&text).expect("JSON");
    assert_eq!(cases.len(), Blocks::ALL.len());
    for (_, name, blocks) in Blocks::ALL {
        let case = &cases[name];
        let hex = case["bytes"].as_str().expect("a text");
        let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal");
        let bytes: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
        let every = case["every"].as_u64().expect("a number") as usize;
        let found: Vec<f32> = Format::Blocks(blocks).decode(&bytes).into_iter().step_by(every).collect();
        let expected: Vec<f32> =
            case["values"].as_array().expect("a list").iter().map(|v| v.as_f64().expect("a number") as f32).collect();
        assert_eq!(found.len(), expected.len(), "{name}");
        for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
            assert!((found - expected).abs() <= 1e-6 * expected.abs().max(1.0), "{name} {i}: {found} {expected}");
        }
    }
}

#[test]
fn numbers_become_the_blocks_that_another_writer_makes_of_them() {
    let text = fs::read_to_string(fixture("gguf/encoded.json")).expect("the fixture");
    let case: Value = serde_json::from_str(&text).expect("JSON");
    let numbers = case["numbers"].as_array().expect("a list").iter();
    let numbers: Vec<f32> = numbers.map(|x| x.as_f64().expect("a number") as f32).collect();
    for (name, blocks) in [("Q8_0", Blocks::Q8_0), ("Q4_0", Blocks::Q4_0)] {
        let mut bytes = vec![0; numbers.len() / 32 * blocks.bytes()];
        blocks.encode(&numbers, &mut bytes);
        let found: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(found, case[name].as_str().expect("a text"), "{name}");
    }
}

#[test]
fn any_part_of_a_tensor_is_converted_to_what_the_whole_is() {
    let values: Vec<f32> = (0..3 * format::UNIT + 5).map(|i| i as f32 * 0.37).collect();
    let len = values.len();
    let header = format!(r#"{{"a":{{"dtype":"F32","shape":[{len}],"data_offsets":[0,{}]}}}}"#, 4 * len);
    let folder = temporary("units", &safetensors(&header, bytemuck::cast_slice(&values)));
    let checkpoint = Checkpoint::open_folder(&folder).expect("a checkpoint");
    let whole = format::encode(&values, Dtype::F16);
    let stored = checkpoint.stored("a", &[len], &Part::Whole, Dtype::F16).expect("it lies in one piece");
    assert_eq!(stored.len, whole.len());
    let unit = 2 * format::UNIT;
    for part in [0..whole.len(), 0..0, 2..unit, 6..6 + unit, unit - 2..3 * unit + 2, 3 * unit..whole.len()] {
        let mut bytes = vec![0; part.len()];
        stored.read(part.start, &mut bytes).expect("bytes");
        assert!(bytes == whole[part.clone()], "{part:?}");
    }
}

#[test]
fn any_number_of_units_and_threads_shares_a_slice() {
    for (len, unit) in [(0, 3), (2, 3), (3, 3), (1000, 3), (1000, 999)] {
        for threads in [1, 2, 7] {
            let mut found = vec![0; len];
            let fill = |first: usize, to: &mut [usize]| {
                (first * unit..).zip(to).for_each(|(i, to)| *to = i);
                Ok::<_, ()>(())
            };
            threads::share(threads, &mut found, unit, fill).expect("it is filled");
            assert!(found.iter().copied().eq(0..len), "{len} by {unit} and {threads} threads");
            let refused = |first: usize, _: &mut [usize]| Err(first);
            assert_eq!(threads::share(threads, &mut found, unit, refused).err(), (len > 0).then_some(0));
        }
    }
}

#[test]
fn values_come_in_the_type_that_is_asked_for() {
    let header = r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"__metadata__":{"format":"pt"}}"#;
    let folder = temporary("values", &safetensors(header, bytemuck::cast_slice(&[1.5_f32, -2.0])));
    let checkpoint = Checkpoint::open_folder(&folder).expect("a checkpoint");
    assert_eq!(checkpoint.num_bytes(), 8);
    assert_eq!(checkpoint.read("a", &[2], Dtype::F32).expect("values"), bytemuck::cast_slice::<f32, u8>(&[1.5, -2.0]));
    assert_eq!(checkpoint.read("a", &[2], Dtype::Bf16).expect("values"), [0xC0, 0x3F, 0x00, 0xC0]);
    let error = checkpoint.read("a", &[1, 2], Dtype::F32).expect_err("another shape").to_string();
    assert!(error.ends_with("tensor a: its shape is [2], not [1, 2]"), "{error}");
    let error = checkpoint.read("b", &[2], Dtype::F32).expect_err("no such tensor").to_string();
    assert!(error.contains("tensor b: it is missing"), "{error}");
}

#[track_caller]
fn refuses(name: &str, content: &[u8], expected: &str) {
    let folder = temporary(name, content);
    let error = Checkpoint::open_folder(&folder).expect_err("the file is wrong").to_string();
    assert!(error.contains("model.safetensors") && error.contains(expected), "{error}");
    fs::remove_dir_all(folder).expect("the folder is there");
}

#[test]
fn headers_are_read_up_to_the_bound_of_the_format() {
    let told = |header_len: u64| {
        let file = std::io::Cursor::new(header_len.to_le_bytes()).chain(std::io::repeat(b'x'));
        super::safetensors::entries(Path::new("large"), file, 1 << 40, 0).expect_err("it is no header").to_string()
    };
    assert!(told(100_000_000).contains("the header is not JSON"));
    assert!(told(100_000_001).contains("the header has 100000001 bytes"));
}

#[test]
fn wrong_safetensors_are_refused_with_the_tensor() {
    let one = |tensor: &str, data: &[u8]| safetensors(&format!(r#"{{"w":{tensor}}}"#), data);
    refuses("empty", &[], "0 bytes have no header");
    refuses("long", &u64::MAX.to_le_bytes(), "the header has 18446744073709551615 bytes");
    refuses("json", &safetensors("{", &[]), "the header is not JSON");
    refuses("field", &one(r#"{"dtype":"F32","shape":[1]}"#, &[]), "tensor w: missing field");
    refuses("type", &one(r#"{"dtype":"I16","shape":[1],"data_offsets":[0,2]}"#, &[0; 2]), "tensor w: its type is I16");
    let truncated = one(r#"{"dtype":"F32","shape":[2],"data_offsets":[0,8]}"#, &[0; 7]);
    refuses("truncated", &truncated, "tensor w: it ends at byte");
    let shape = one(r#"{"dtype":"F32","shape":[2],"data_offsets":[0,4]}"#, &[0; 4]);
    refuses("shape", &shape, "tensor w: it lies in bytes 0 to 4, but its shape [2] takes 8");
    let huge = one(r#"{"dtype":"F32","shape":[4294967296,4294967296,4294967296],"data_offsets":[0,4]}"#, &[0; 4]);
    refuses("huge", &huge, "is too large");
    let beyond = format!(r#"{{"dtype":"F32","shape":[1],"data_offsets":[{},{}]}}"#, u64::MAX - 4, u64::MAX);
    refuses("beyond", &one(&beyond, &[0; 4]), "tensor w: it begins beyond the file");
}

/// A matrix of 3 rows and 130 columns of 8-bit floats, each 1 to 3 by its row, and its scales.
fn eight_bit(scales_name: &str, shape: &str, scales: &[f32]) -> Vec<u8> {
    let data: Vec<u8> = [0x38, 0x40, 0x44].into_iter().flat_map(|byte| [byte; 130]).collect();
    let end = data.len() + 4 * scales.len();
    let header = format!(
        r#"{{"w.weight":{{"dtype":"F8_E4M3","shape":[3,130],"data_offsets":[0,{}]}},
        "{scales_name}":{{"dtype":"F32","shape":{shape},"data_offsets":[{},{end}]}}}}"#,
        data.len(),
        data.len(),
    );
    safetensors(&header, &[&data[..], bytemuck::cast_slice(scales)].concat())
}

#[test]
fn eight_bit_floats_are_multiplied_by_the_scales_beside_them() {
    let cases: [(&str, &str, &[f32], fn(usize, usize) -> f32); 5] = [
        ("w.weight_scale", "[]", &[0.5], |_, _| 0.5),
        ("w.weight_scale", "[1]", &[0.5], |_, _| 0.5),
        ("w.weight_scale", "[3,1]", &[1.0, 2.0, 4.0], |row, _| [1.0, 2.0, 4.0][row]),
        ("w.weight_scale", "[3]", &[1.0, 2.0, 4.0], |row, _| [1.0, 2.0, 4.0][row]),
        ("w.weight_scale_inv", "[1,2]", &[1.0, 0.25], |_, column| if column < 128 { 1.0 } else { 0.25 }),
    ];
    for (number, (name, shape, scales, scale)) in cases.into_iter().enumerate() {
        let folder = temporary(&format!("scales-{number}"), &eight_bit(name, shape, scales));
        let checkpoint = Checkpoint::open_folder(&folder).expect("a checkpoint");
        let read = |part: &Part| -> Vec<f32> {
            let bytes = checkpoint.read_part("w.weight", &[3, 130], part, Dtype::F32).expect("values");
            bytes.chunks_exact(4).map(bytemuck::pod_read_unaligned).collect()
        };
        let expected = |rows: Range<usize>, columns: Range<usize>| -> Vec<f32> {
            let value = |row: usize, column: usize| (row + 1) as f32 * scale(row, column);
            rows.flat_map(|row| columns.clone().map(move |column| (row, column))).map(|(r, c)| value(r, c)).collect()
        };
        assert_eq!(read(&Part::Whole), expected(0..3, 0..130), "{name} {shape}");
        assert_eq!(read(&Part::Rows(1..3)), expected(1..3, 0..130), "{name} {shape}");
        assert_eq!(read(&Part::Columns(64..130)), expected(0..3, 64..130), "{name} {shape}");
        fs::remove_dir_all(folder).expect("the folder is there");
    }
}

#[test]
fn eight_bit_floats_without_their_scales_are_refused() {
    let cases = [
        ("other", "[1]", &[1.0][..], "its scales w.weight_scale_inv or w.weight_scale are missing"),
        ("w.weight_scale", "[2]", &[1.0, 2.0][..], "its scales w.weight_scale have shape [2], which does not fit"),
        ("w.weight_scale_inv", "[2,7]", &[0.0; 14][..], "have shape [2, 7], which does not fit [3, 130]"),
    ];
    for (number, (name, shape, scales, expected)) in cases.into_iter().enumerate() {
        let folder = temporary(&format!("unscaled-{number}"), &eight_bit(name, shape, scales));
        let checkpoint = Checkpoint::open_folder(&folder).expect("a checkpoint");
        let error = checkpoint.read_part("w.weight", &[3, 130], &Part::Whole, Dtype::F32).expect_err("no scales");
        assert!(error.to_string().contains(expected), "{error}");
        fs::remove_dir_all(folder).expect("the folder is there");
    }
}

#[test]
fn an_index_leads_to_no_file_elsewhere() {
    let folder = temporary("index", &[]);
    let index = folder.join("model.safetensors.index.json");
    fs::write(&index, r#"{"weight_map":{"w":"../secret"}}"#).expect("a file");
    let error = Checkpoint::open_folder(&folder).expect_err("it leads out of the folder").to_string();
    assert!(error.contains("\"../secret\" is not the name of a file beside it"), "{error}");
    fs::remove_dir_all(folder).expect("the folder is there");
}

#[test]
fn what_is_no_file_or_too_large_for_its_kind_is_not_read() {
    let folder = temporary("large", &[]);
    let path = folder.join("config.json");
    fs::File::create(&path).and_then(|file| file.set_len(MOST_BYTES + 1)).expect("a file with a hole");
    let error = read_small(&path).expect_err("it is too large").to_string();
    assert!(error.contains("config.json: it has 268435457 bytes, and 268435456 at most are read"), "{error}");
    fs::write(&path, "12345678").expect("a file");
    assert_eq!(read_at_most(&path, 8).expect("eight bytes"), b"12345678");
    assert!(read_at_most(&path, 7).is_err());
    #[cfg(unix)]
    for other in ["/dev/zero", "/dev"] {
        let error = read_small(Path::new(other)).expect_err("it has no end").to_string();
        assert!(error.ends_with("it is not a file"), "{error}");
    }
    fs::remove_dir_all(folder).expect("the folder is there");
}

/// A GGUF file of keys, and of tensors of `f32` with one axis.
fn gguf_file(values: &[(&str, gguf::Value)], tensors: &[(&str, &[f32])]) -> Vec<u8> {
    let text = |text: &str| [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat();
    let mut bytes = b"GGUF\x03\0\0\0".to_vec();
    bytes.extend((tensors.len() as u64).to_le_bytes());
    bytes.extend((values.len() as u64).to_le_bytes());
    for (key, value) in values {
        let (kind, value) = match value {
            gguf::Value::Int(int) => (4_u32, (*int as u32).to_le_bytes().to_vec()),
            gguf::Value::Float(float) => (6, (*float as f32).to_le_bytes().to_vec()),
            gguf::Value::Text(value) => (8, text(value)),
            gguf::Value::Texts(all) => {
                let len = [&8_u32.to_le_bytes()[..], &(all.len() as u64).to_le_bytes()].concat();
                (9, [len, all.iter().flat_map(|t| text(t)).collect()].concat())
            }
            gguf::Value::Floats(all) => {
                let len = [&6_u32.to_le_bytes()[..], &(all.len() as u64).to_le_bytes()].concat();
                (9, [len, bytemuck::cast_slice(all).to_vec()].concat())
            }
            gguf::Value::Ints(all) => {
                let len = [&11_u32.to_le_bytes()[..], &(all.len() as u64).to_le_bytes()].concat();
                (9, [len, bytemuck::cast_slice(all).to_vec()].concat())
            }
            other => panic!("{other:?} is not written"),
        };
        bytes.extend([text(key), kind.to_le_bytes().to_vec(), value].concat());
    }
    let mut start = 0_u64;
    for (name, values) in tensors {
        let numbers = [1_u32.to_le_bytes().to_vec(), (values.len() as u64).to_le_bytes().to_vec()].concat();
        bytes.extend([text(name), numbers, 0_u32.to_le_bytes().to_vec(), start.to_le_bytes().to_vec()].concat());
        start += 4 * values.len() as u64;
    }
    bytes.resize(bytes.len().next_multiple_of(32), 0);
    bytes.extend(tensors.iter().flat_map(|(_, values)| bytemuck::cast_slice::<f32, u8>(values).to_vec()));
    bytes
}

#[test]
fn what_llama_cpp_says_by_tensors_and_by_older_keys_counts() {
    use gguf::Value::{Float, Int, Text, Texts};
    let keys = [
        ("general.architecture", Text("llama".to_owned())),
        ("llama.embedding_length", Int(8)),
        ("llama.attention.head_count", Int(2)),
        ("llama.block_count", Int(1)),
        ("llama.feed_forward_length", Int(8)),
        ("llama.context_length", Int(16)),
        ("llama.rope.scale_linear", Float(4.0)),
        ("tokenizer.ggml.model", Text("gpt2".to_owned())),
        ("tokenizer.ggml.tokens", Texts(["a", "b"].map(str::to_owned).to_vec())),
        ("tokenizer.ggml.merges", Texts(Vec::new())),
    ];
    let folder = temporary("keys", &[]);
    let path = folder.join("model.gguf");
    let open = |tensors: &[(&str, &[f32])]| {
        fs::write(&path, gguf_file(&keys, tensors)).expect("a file");
        crate::ModelFiles::open(&path)
    };
    let bias = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0];
    let files = open(&[("blk.0.attn_q.bias", &bias)]).expect("a model");
    assert_eq!(files.config().rope.scaling, crate::RopeScaling::Linear { factor: 4.0 });
    assert!(files.config().has_qkv_bias && !files.config().has_output_bias);
    // Pairs of a rotation are neighbours in the file, as in the weights.
    let read = files.checkpoint().read("model.layers.0.self_attn.q_proj.bias", &[8], Dtype::F32).expect("values");
    assert_eq!(read, bytemuck::cast_slice::<f32, u8>(&[0.0, 2.0, 1.0, 3.0, 4.0, 6.0, 5.0, 7.0]));
    assert!(!open(&[]).expect("a model").config().has_qkv_bias);
    let error = open(&[("blk.0.ffn_up.bias", &bias)]).expect_err("nothing adds it").to_string();
    assert!(error.ends_with("model.gguf: not supported: biases in the MLP (up_proj)"), "{error}");
    fs::remove_dir_all(folder).expect("the folder is there");
}

#[test]
fn pieces_with_scores_are_merged_as_sentence_piece_merges_them() {
    use gguf::Value::{Floats, Int, Ints, Text, Texts};
    let text = fs::read_to_string(fixture("gguf/pieces.json")).expect("the fixture");
    let json: Value = serde_json::from_str(&text).expect("JSON");
    let list = |name: &str| json[name].as_array().expect("a list").clone();
    let tokens = list("tokens").iter().map(|t| t.as_str().expect("a text").to_owned()).collect();
    let scores = list("scores").iter().map(|s| s.as_f64().expect("a number") as f32).collect();
    let types = list("types").iter().map(|t| t.as_i64().expect("a number")).collect();
    let keys = [
        ("general.architecture", Text("llama".to_owned())),
        ("tokenizer.ggml.model", Text("llama".to_owned())),
        ("tokenizer.ggml.tokens", Texts(tokens)),
        ("tokenizer.ggml.scores", Floats(scores)),
        ("tokenizer.ggml.token_type", Ints(types)),
        ("tokenizer.ggml.bos_token_id", Int(1)),
    ];
    let folder = temporary("pieces", &[]);
    let path = folder.join("model.gguf");
    fs::write(&path, gguf_file(&keys, &[])).expect("a file");
    let tokenizer = crate::Tokenizer::of_gguf(&gguf::header(&path).expect("a header")).expect("a tokenizer");
    let cases = list("cases");
    assert!(cases.len() > 10);
    for case in cases {
        let text = case["text"].as_str().expect("a text");
        let expected: Vec<u32> =
            case["tokens"].as_array().expect("a list").iter().map(|id| id.as_u64().expect("an id") as u32).collect();
        // What looks like a mark is one, as in a chat template.
        let is_mark = text.starts_with("<s>");
        let found = tokenizer.encode(text).expect("tokens");
        assert_eq!(found[0], 1, "{text:?}");
        assert_eq!(found[1..] == expected, !is_mark, "{text:?}: {found:?}, not {expected:?}");
        if !is_mark && !text.is_empty() {
            assert_eq!(tokenizer.decode(&expected), format!(" {text}"));
        }
    }
    fs::write(&path, gguf_file(&keys[..3], &[])).expect("a file");
    let error = gguf::header(&path).and_then(|header| crate::Tokenizer::of_gguf(&header)).expect_err("no scores");
    assert!(error.to_string().contains("tokenizer.ggml.scores: there is not a number for each"), "{error}");
    fs::remove_dir_all(folder).expect("the folder is there");
}

#[test]
fn a_gguf_file_cut_anywhere_is_an_error() {
    let whole = fs::read(fixture("gguf/llama.gguf")).expect("the fixture");
    let folder = temporary("cut", &[]);
    let path = folder.join("cut.gguf");
    for len in (0..whole.len()).step_by(whole.len() / 97).chain(0..64) {
        fs::write(&path, &whole[..len]).expect("a file");
        let opened = gguf::header(&path).and_then(Checkpoint::of_gguf);
        let error = opened.expect_err("a part of a file is none").to_string();
        assert!(error.contains("cut.gguf"), "{error}");
    }
    fs::remove_dir_all(folder).expect("the folder is there");
}

#[test]
fn a_gguf_file_with_wrong_bytes_is_an_error_or_another_file() {
    let whole = fs::read(fixture("gguf/llama.gguf")).expect("the fixture");
    let folder = temporary("flip", &[]);
    let path = folder.join("flip.gguf");
    // Counts and lengths are among the first bytes; all ones are larger than any file.
    for at in 4..400 {
        let mut bytes = whole.clone();
        bytes[at] ^= 0xFF;
        fs::write(&path, &bytes).expect("a file");
        if let Ok(checkpoint) = gguf::header(&path).and_then(Checkpoint::of_gguf) {
            assert!(checkpoint.num_bytes() <= whole.len() as u64);
        }
    }
    fs::remove_dir_all(folder).expect("the folder is there");
}

#[test]
fn parts_of_a_tensor_are_those_of_the_whole() {
    /// A matrix of the fixtures in both kinds of files.
    #[track_caller]
    fn check(checkpoint: &Checkpoint, name: &str, [rows, columns]: [usize; 2]) {
        let read = |part| checkpoint.read_part(name, &[rows, columns], &part, Dtype::F32).expect("values");
        let whole: Vec<[u8; 4]> = read(Part::Whole).chunks_exact(4).map(|w| [w[0], w[1], w[2], w[3]]).collect();
        let (some, half) = (rows / 4..rows / 2, columns / 2);
        assert_eq!(read(Part::Rows(some.clone())), whole[some.start * columns..some.end * columns].concat(), "{name}");
        let right: Vec<_> = whole.chunks_exact(columns).flat_map(|row| row[half..].concat()).collect();
        assert_eq!(read(Part::Columns(half..columns)), right, "{name}");
    }
    let plain = Checkpoint::open_folder(&fixture("llama")).expect("a checkpoint");
    check(&plain, "model.layers.0.self_attn.q_proj.weight", [32, 32]);
    check(&plain, "model.layers.1.mlp.down_proj.weight", [32, 48]);
    let header = gguf::header(&fixture("gguf/llama.gguf")).expect("a header");
    let mut quantized = Checkpoint::of_gguf(header).expect("a checkpoint");
    // Halves of its rows of 32 are not whole blocks.
    check(&quantized, "model.layers.0.mlp.gate_proj.weight", quantized_shape(&quantized, "mlp.gate_proj"));
    let order = HeadOrder { head_dim: 16, rotated: 16, has_adjacent_pairs: true };
    quantized.set_storage("model.layers.0.self_attn.q_proj.weight", Storage::HeadRows(order));
    check(&quantized, "model.layers.0.self_attn.q_proj.weight", quantized_shape(&quantized, "self_attn.q_proj"));
}

fn quantized_shape(checkpoint: &Checkpoint, part: &str) -> [usize; 2] {
    let shape = &checkpoint.entries[&format!("model.layers.0.{part}.weight")].shape;
    [shape[0], shape[1]]
}

#[test]
fn any_number_of_threads_digests_a_file_to_the_same() {
    // Two chunks and a little of one tensor, and fewer rows than threads of the others.
    let shapes = [[2051, 256], [1, 3], [40, 7]];
    let (mut header, mut data) = (serde_json::Map::new(), Vec::<u8>::new());
    for (name, [rows, columns]) in ["a", "b", "c"].into_iter().zip(shapes) {
        let first = data.len();
        data.extend((0..2 * rows * columns).map(|i| (i as u32).wrapping_mul(2_654_435_761).to_be_bytes()[0] & 0x3f));
        let tensor =
            serde_json::json!({"dtype": "BF16", "shape": [rows, columns], "data_offsets": [first, data.len()]});
        header.insert(name.to_owned(), tensor);
    }
    let folder = temporary("digests", &safetensors(&Value::Object(header).to_string(), &data));
    let checkpoint = Checkpoint::open_folder(&folder).expect("a checkpoint");
    for dtype in [Dtype::Bf16, Dtype::F32] {
        let tensors = ["a", "b", "c"].map(|name| (name, digest::Held::plain(dtype)));
        let expected = checkpoint.digests(&tensors).expect("digests");
        for threads in [1, 2, 7, 32, 33, 100] {
            assert_eq!(checkpoint.digests_by(threads, &tensors).expect("digests"), expected, "{threads} threads");
        }
    }
    fs::remove_dir_all(folder).expect("the folder is there");
}
