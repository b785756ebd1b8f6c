//! Quantized matrices against what numpy read in them, and such that are wrong.

use std::path::Path;

use serde_json::{Map, Value, json};
use warpfold::Dtype;

use super::super::{Checkpoint, Part};
use super::Quantization;
use crate::Error;
use crate::config::quantization;

const ROWS: usize = 24;
const WIDTH: usize = 64;

fn fixture(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/models/quantized");
    std::fs::read(folder.join(name)).expect("the fixture")
}

/// Every format, with what a `config.json` says of it.
pub(crate) fn formats() -> Vec<(String, Quantization)> {
    let all: Map<String, Value> = serde_json::from_slice(&fixture("formats.json")).expect("JSON");
    let told = |config: Value| quantization::of_text(&json!({ "quantization_config": config }).to_string());
    all.into_iter().map(|(name, config)| (name, told(config).expect("a known format"))).collect()
}

fn quantization_of(name: &str) -> Quantization {
    formats().into_iter().find(|(of, _)| of == name).expect("a format").1
}

fn open(bytes: Vec<u8>, quantization: Quantization) -> Result<Checkpoint, Error> {
    Checkpoint::of_memory(Path::new("model.safetensors"), Box::leak(bytes.into_boxed_slice()))?.recognize(quantization)
}

fn values(checkpoint: &Checkpoint, name: &str, part: &Part) -> Result<Vec<f32>, Error> {
    let bytes = checkpoint.read_part(name, &[ROWS, WIDTH], part, Dtype::F32)?;
    Ok(bytes.chunks_exact(4).map(bytemuck::pod_read_unaligned).collect())
}

#[test]
fn a_matrix_of_every_format_has_the_values_of_numpy() {
    assert_eq!(formats().len(), 18);
    for (name, quantization) in formats() {
        let checkpoint = open(fixture(&format!("{name}.safetensors")), quantization).expect("a checkpoint");
        let read = |part: &Part| values(&checkpoint, "w.weight", part).expect("values");
        let expected = values(&checkpoint, "expected", &Part::Whole).expect("values");
        let of = |rows: std::ops::Range<usize>, columns: std::ops::Range<usize>| -> Vec<f32> {
            rows.flat_map(|row| expected[row * WIDTH..][columns.clone()].to_vec()).collect()
        };
        assert_eq!(read(&Part::Whole), expected, "{name}");
        assert_eq!(read(&Part::Rows(8..16)), of(8..16, 0..WIDTH), "{name}");
        assert_eq!(read(&Part::Columns(24..40)), of(0..ROWS, 24..40), "{name}");
        assert!(expected.iter().any(|value| *value != expected[0]), "{name}");
    }
}

/// The header and the data of a file.
fn taken(name: &str) -> (Map<String, Value>, Vec<u8>) {
    let bytes = fixture(&format!("{name}.safetensors"));
    let len = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes")) as usize;
    (serde_json::from_slice(&bytes[8..8 + len]).expect("JSON"), bytes[8 + len..].to_vec())
}

/// Changes a file, and compares what is said of it.
#[track_caller]
fn refuses(name: &str, change: impl FnOnce(&mut Map<String, Value>, &mut Vec<u8>), expected: &str) {
    let (mut header, mut data) = taken(name);
    change(&mut header, &mut data);
    let text = Value::Object(header).to_string();
    let bytes = [&(text.len() as u64).to_le_bytes(), text.as_bytes(), &data].concat();
    let read = open(bytes, quantization_of(name)).and_then(|of| values(&of, "w.weight", &Part::Whole));
    let error = read.expect_err("the file is wrong").to_string();
    assert!(error.starts_with("model.safetensors: tensor w.") && error.contains(expected), "{name}: {error}");
}

#[test]
fn matrices_without_what_belongs_to_them_are_refused() {
    let cases = [
        ("awq", "w.qzeros"),
        ("awq", "w.scales"),
        ("gptq", "w.scales"),
        ("gptq_act_order", "w.qzeros"),
        ("int4", "w.weight_shape"),
        ("int4", "w.weight_scale"),
        ("int8", "w.weight_scale"),
        ("mxfp4", "w.weight_scale"),
        ("nf4", "w.weight.absmax"),
        ("nf4", "w.weight.quant_map"),
        ("nf4", "w.weight.quant_state.bitsandbytes__nf4"),
        ("nf4_nested", "w.weight.nested_absmax"),
        ("nf4_nested", "w.weight.nested_quant_map"),
    ];
    for (name, part) in cases {
        let remove = |header: &mut Map<String, Value>, _: &mut Vec<u8>| assert!(header.remove(part).is_some());
        refuses(name, remove, &format!("{part}: it is missing beside the codes"));
    }
    let global = |header: &mut Map<String, Value>, _: &mut Vec<u8>| drop(header.remove("w.weight_global_scale"));
    refuses("nvfp4", global, "no factor for all");
}

#[test]
fn shapes_and_types_that_do_not_fit_are_refused() {
    let cases = [
        ("awq", "scales", json!([1, 48]), "which does not fit 24 rows"),
        ("awq", "scales", json!([48]), "which does not fit groups of rows"),
        ("awq", "qzeros", json!([3, 2]), "which does not fit 2 groups of 24 rows"),
        ("awq", "qweight", json!([192]), "which does not fit a matrix"),
        ("gptq", "qweight", json!([4, 48]), "which does not fit"),
        ("gptq", "g_idx", json!([8, 8]), "which does not fit 64 columns"),
        ("int4", "weight_packed", json!([8, 24]), "24 rows of 64 codes of 4 or 8 bits"),
        ("int4", "weight_scale", json!([48]), "which does not fit 24 rows"),
        ("int4_zeros", "weight_zero_point", json!([2, 3]), "which does not fit 2 groups of 24 rows"),
        ("mxfp4", "weight_scale", json!([48, 1]), "which does not fit 24 rows"),
        ("nf4", "weight.absmax", json!([1, 24]), ""),
        ("nf4", "weight", json!([768]), ""),
    ];
    for (name, part, shape, expected) in cases {
        let reshape = |header: &mut Map<String, Value>, _: &mut Vec<u8>| {
            header[&format!("w.{part}")]["shape"] = shape.clone();
        };
        if expected.is_empty() {
            // The same elements in another shape are the same blocks.
            let (mut header, data) = taken(name);
            reshape(&mut header, &mut Vec::new());
            let text = Value::Object(header).to_string();
            let bytes = [&(text.len() as u64).to_le_bytes(), text.as_bytes(), &data].concat();
            open(bytes, quantization_of(name)).expect("it is right");
        } else {
            refuses(name, reshape, expected);
        }
    }
    // Two thirds of a scale for each row: groups of 42 and two thirds.
    let uneven = |header: &mut Map<String, Value>, data: &mut Vec<u8>| {
        let start = data.len();
        data.extend([0; 144]);
        header["w.weight_scale"] = json!({"dtype": "BF16", "shape": [24, 3], "data_offsets": [start, start + 144]});
    };
    refuses("int4", uneven, "[24, 3], which does not fit rows of 64 in equal groups");
    let retype = |header: &mut Map<String, Value>, _: &mut Vec<u8>| header["w.scales"]["dtype"] = json!("F16X");
    refuses("awq", retype, "its type is F16X");
    let bytes = |header: &mut Map<String, Value>, _: &mut Vec<u8>| {
        header["w.qweight"]["dtype"] = json!("U8");
        header["w.qweight"]["shape"] = json!([64, 12]);
    };
    refuses("awq", bytes, "its type is U8, not one of [I32]");
}

#[test]
fn groups_that_are_not_there_are_refused_when_they_are_read() {
    for (name, part) in [("gptq_act_order", "w.g_idx"), ("int4_zeros", "w.weight_g_idx")] {
        for group in [2, -1, i32::MAX, i32::MIN] {
            let change = |header: &mut Map<String, Value>, data: &mut Vec<u8>| {
                let start = header[part]["data_offsets"][0].as_u64().expect("an offset") as usize + 4 * 5;
                data[start..start + 4].copy_from_slice(&group.to_le_bytes());
            };
            refuses(name, change, &format!("column 5 is of group {group}, and there are 2"));
        }
    }
}

#[test]
fn states_of_blocks_that_are_wrong_are_refused() {
    let state = "w.weight.quant_state.bitsandbytes__nf4";
    let cases = [
        ("[]", "a shape of two sizes, and a blocksize"),
        ("{", "it is not JSON"),
        (r#"{"blocksize": 0, "shape": [24, 64]}"#, "a shape of two sizes"),
        (r#"{"blocksize": 64, "shape": [24, 65]}"#, "24 x 65 codes of 4 bits"),
        (r#"{"blocksize": 64, "shape": [4294967296, 4294967296]}"#, "codes of 4 bits"),
        (r#"{"blocksize": 48, "shape": [24, 64]}"#, "rows of 64 in whole blocks of 48"),
        (r#"{"blocksize": 32, "shape": [24, 64]}"#, "which does not fit 48 blocks"),
    ];
    for (text, expected) in cases {
        let change = |header: &mut Map<String, Value>, data: &mut Vec<u8>| {
            let start = data.len();
            data.extend(text.as_bytes());
            header[state] = json!({"dtype": "U8", "shape": [text.len()], "data_offsets": [start, data.len()]});
        };
        refuses("nf4", change, expected);
    }
}

#[test]
fn integers_are_no_weights_where_nothing_says_so() {
    let checkpoint = open(fixture("awq.safetensors"), Quantization::None).expect("a checkpoint");
    let error = checkpoint.read("w.qweight", &[64, 3], Dtype::F32).expect_err("it is no matrix of weights");
    assert!(error.to_string().contains("its values are integers"), "{error}");
}

#[test]
fn methods_and_versions_that_are_not_read_are_refused() {
    let cases = [
        (json!({"quant_method": "aqlm"}), "weights quantized by aqlm"),
        (json!({"bits": 4}), "weights quantized by an unnamed method"),
        (json!({"quant_method": "awq", "bits": 4, "version": "gemv"}), "by awq in Some(4) bits, laid out as gemv"),
        (json!({"quant_method": "awq", "bits": 3}), "by awq in Some(3) bits"),
        (json!({"quant_method": "gptq", "bits": 3}), "by gptq in 3 bits"),
        (json!({"quant_method": "gptq"}), "quantization_config.bits: it is missing"),
        (json!({"quant_method": "gptq", "bits": 4, "checkpoint_format": "marlin"}), "by gptq as marlin"),
        (
            json!({"quant_method": "gptq", "bits": 4, "dynamic": {"+:.*": {"bits": 8}}}),
            "with a rule for layers \"+:.*\"",
        ),
        (json!({"quant_method": "compressed-tensors", "format": "marlin-24"}), "as marlin-24"),
        (
            json!({"quant_method": "compressed-tensors", "format": "dense", "sparsity_config": {"format": "sparse-24"}}),
            "sparse weights (sparse-24)",
        ),
        (
            json!({"quant_method": "compressed-tensors", "transform_config": {"config_groups": {"u": {}}}}),
            "weights that are transformed",
        ),
        (json!({"quant_method": "bitsandbytes", "load_in_8bit": true}), "by bitsandbytes in 8 bits"),
        (json!({"quant_method": "modelopt", "quant_algo": "W4A8_AWQ"}), "by modelopt as W4A8_AWQ"),
    ];
    for (config, expected) in cases {
        let error = quantization::of_text(&json!({ "quantization_config": config }).to_string());
        let error = error.expect_err("it is not read").to_string();
        assert!(error.starts_with("config.json: ") && error.contains(expected), "{error}");
    }
}
