//! What has to be refused: with one line and a failing exit code, or as one failing line of a batch
//! that goes on.

use std::fs;

use serde_json::{Value as Json, json};
use warpfold_conformance::reference::array::Array;
use warpfold_conformance::reference::dtype::Dtype::{F32, I32, I64, U8};
use warpfold_conformance::reference::npy;

use crate::program;

/// A command: the operator, its inputs by name, further fields.
struct Bad {
    what: &'static str,
    op: &'static str,
    inputs: &'static [&'static str],
    options: &'static [(&'static str, &'static str)],
}

const fn bad(
    what: &'static str,
    op: &'static str,
    inputs: &'static [&'static str],
    options: &'static [(&'static str, &'static str)],
) -> Bad {
    Bad { what, op, inputs, options }
}

/// Files: `matrix` 3x4 f32, `vector` 4 f32, `other` 5 f32, `ints` 3x4 i32, `labels` 3 i64,
/// `labels4` 4, `labels9` with a 9, `empty` 0 f32.
const BAD: &[Bad] = &[
    bad("no such operator", "frobnicate", &["matrix"], &[]),
    bad("no input", "sum", &[], &[]),
    bad("two inputs where one is taken", "sum", &["matrix", "matrix"], &[]),
    bad("a file that is not there", "sum", &["absent"], &[]),
    bad("a file that is no array", "sum", &["garbage"], &[]),
    bad("an array that is cut off", "sum", &["cut"], &[]),
    bad("an axis too large", "sum", &["matrix"], &[("axes", "[2]")]),
    bad("an axis too small", "sum", &["matrix"], &[("axes", "[-3]")]),
    bad("an axis twice", "sum", &["matrix"], &[("axes", "[0,-2]")]),
    bad("an axis of a softmax too large", "softmax", &["matrix"], &[("axes", "[5]")]),
    bad("an extreme of nothing", "max", &["empty"], &[]),
    bad("the place of an extreme of nothing", "argmin", &["empty"], &[]),
    bad("more than there are", "topk", &["matrix"], &[("k", "5")]),
    bad("no k", "topk", &["matrix"], &[]),
    bad("shapes that differ", "dot", &["vector", "other"], &[]),
    bad("types that differ", "dot", &["matrix", "ints"], &[]),
    bad("one input of two", "dot", &["vector"], &[]),
    bad("shapes that do not broadcast", "add", &["vector", "other"], &[]),
    bad("a vector of another length", "gemv", &["matrix", "other"], &[]),
    bad("a vector for the other way", "gemv", &["matrix", "vector"], &[("transpose", "true")]),
    bad("a scale of another length", "layer-norm", &["matrix", "other"], &[]),
    bad("integers", "softmax", &["ints"], &[]),
    bad("labels of another length", "cross-entropy", &["matrix", "labels4"], &[]),
    bad("labels that are floats", "cross-entropy", &["matrix", "vector"], &[]),
    bad("a row that is not there", "gather", &["matrix", "labels9"], &[]),
    bad("indices that are floats", "gather", &["matrix", "vector"], &[]),
    bad("values of another length", "softmax-v", &["matrix", "matrix"], &[]),
    bad("a type that is not narrow", "quantize", &["matrix"], &[("dtype", "\"i32\"")]),
    bad("a mask that does not broadcast", "softmax", &["matrix", "other"], &[]),
    bad("conditions that are no bools", "where", &["matrix", "matrix", "matrix"], &[]),
    bad("half of integers", "scale", &["ints"], &[("alpha", "0.5")]),
    bad("bits of floats", "and", &["matrix", "matrix"], &[]),
    bad("two axes for a scan", "cumsum", &["matrix"], &[("axes", "[0,1]")]),
    bad("bins of floats", "histogram", &["matrix"], &[("bins", "4")]),
    bad("no bins", "histogram", &["ints"], &[]),
    bad("no type", "cast", &["matrix"], &[]),
    bad("a type that does not exist", "cast", &["matrix"], &[("dtype", "\"f31\"")]),
    bad("an order that leaves an axis out", "transpose", &["matrix"], &[("axes", "[0]")]),
    bad("an order with an axis twice", "transpose", &["matrix"], &[("axes", "[0,0]")]),
    bad("keys of another head size", "attention", &["heads", "heads5", "heads5"], &[]),
    bad("query heads that are no multiple", "attention", &["heads", "heads3", "heads3"], &[]),
    bad("values of another length", "attention", &["heads", "heads", "heads3"], &[]),
    bad("attention to a matrix", "attention", &["matrix", "matrix", "matrix"], &[]),
    bad("a mask of another shape", "attention", &["heads", "heads", "heads", "matrix"], &[]),
    bad("more keys than there are", "attention", &["heads", "heads", "heads", "labels9"], &[]),
    bad("a corner that does not exist", "attention", &["heads", "heads", "heads"], &[("causal", "\"top-right\"")]),
    bad("a window of nothing", "attention", &["heads", "heads", "heads"], &[("window", "0")]),
    bad("a softcap of nothing", "attention", &["heads", "heads", "heads"], &[("softcap", "0")]),
    bad("heads in an unknown order", "attention", &["heads", "heads", "heads"], &[("layout", "\"hbsd\"")]),
    bad("a page out of range", "paged-attention", &["tokens", "heads", "heads", "table9", "lens"], &[]),
    bad("a negative page", "paged-attention", &["tokens", "heads", "heads", "table_negative", "lens"], &[]),
    bad("more keys than the table has", "paged-attention", &["tokens", "heads", "heads", "table", "lens9"], &[]),
    bad("a table of other sequences", "paged-attention", &["tokens", "heads", "heads", "ints", "lens"], &[]),
    bad("offsets that do not rise", "paged-attention", &["tokens", "heads", "heads", "table", "lens", "lens9"], &[]),
    bad(
        "a page layout that does not exist",
        "paged-attention",
        &["tokens", "heads", "heads", "table", "lens"],
        &[("page-layout", "\"hdn\"")],
    ),
    bad("queries that are integers", "attention", &["int_heads", "int_heads", "int_heads"], &[]),
    bad("keys of another type", "attention", &["heads", "int_heads", "int_heads"], &[]),
    bad("a mask of integers", "attention", &["heads", "heads", "heads", "int_mask"], &[]),
    bad("a scale that is no number", "attention", &["heads", "heads", "heads"], &[("scale", "\"nan\"")]),
    bad("a scale of values without end", "attention", &["heads", "heads", "heads"], &[("scale-v", "\"inf\"")]),
    bad("products of f32", "attention", &["heads", "heads", "heads"], &[("products", "\"f8e4m3\"")]),
    bad("a table of floats", "paged-attention", &["tokens", "heads", "heads", "column", "lens"], &[]),
    bad("lengths of floats", "paged-attention", &["tokens", "heads", "heads", "table", "pair"], &[]),
    bad("offsets of floats", "paged-attention", &["tokens", "heads", "heads", "table", "lens", "pair"], &[]),
    bad("a length below zero", "paged-attention", &["tokens", "heads", "heads", "table", "lens_negative"], &[]),
    bad("pages of another head size", "paged-attention", &["tokens", "heads5", "heads5", "table", "lens"], &[]),
    bad("values in other pages", "paged-attention", &["tokens", "heads", "heads3", "table", "lens"], &[]),
    bad("queries that are no tokens", "paged-attention", &["matrix", "heads", "heads", "table", "lens"], &[]),
    bad("pages of integers", "paged-attention", &["tokens", "int_heads", "int_heads", "table", "lens"], &[]),
    bad("positions that are floats", "rotary-embedding", &["heads", "cosines", "cosines", "matrix"], &[]),
    bad("integers that turn", "rotary-embedding", &["int_heads", "cosines", "cosines", "positions"], &[]),
    bad("positions beyond the tables", "rotary-embedding", &["heads", "cosines", "cosines", "positions9"], &[]),
    bad("cosines of other pairs", "rotary-embedding", &["heads", "matrix", "matrix", "positions"], &[]),
    bad("no number of heads", "rotary-embedding", &["tokens", "cosines", "cosines", "positions"], &[]),
    bad(
        "an odd number of rotary elements",
        "rotary-embedding",
        &["heads", "cosines", "cosines", "positions"],
        &[("rotary-dim", "3")],
    ),
    bad("boxes without four corners", "nms", &["matrix3", "labels"], &[("threshold", "0.5")]),
    bad("an option that does not exist", "sum", &["matrix"], &[("frobnicate", "true")]),
    bad("axes that are no numbers", "sum", &["matrix"], &[("axes", "[\"x\"]")]),
    bad("an option that the operator does not have", "sum", &["matrix"], &[("k", "3")]),
];

const ATTENTION: [&str; 3] = ["attention", "paged-attention", "rotary-embedding"];

/// The files that the cases name.
fn files(name: &str) -> std::path::PathBuf {
    let folder = program::folder(name);
    let count = |n: usize| (0..n).map(|i| i as f64).collect::<Vec<_>>();
    let ints = |n: usize| (0..n as i128).collect::<Vec<_>>();
    let write = |name: &str, array: &Array| npy::write(&folder.join(format!("{name}.npy")), array);
    write("matrix", &Array::floats(F32, &[3, 4], &count(12)));
    write("matrix3", &Array::floats(F32, &[3, 3], &count(9)));
    write("vector", &Array::floats(F32, &[4], &count(4)));
    write("other", &Array::floats(F32, &[5], &count(5)));
    write("ints", &Array::ints(I32, &[3, 4], &ints(12)));
    write("labels", &Array::ints(I64, &[3], &ints(3)));
    write("labels9", &Array::ints(I64, &[3], &[0, 9, 1]));
    write("labels4", &Array::ints(I64, &[4], &[0; 4]));
    // Three sequences of two heads of four tokens; as pages, three of two tokens and four heads.
    write("heads", &Array::floats(F32, &[3, 2, 4, 4], &count(96)));
    write("heads3", &Array::floats(F32, &[3, 3, 4, 4], &count(144)));
    write("heads5", &Array::floats(F32, &[3, 2, 4, 5], &count(120)));
    write("tokens", &Array::floats(F32, &[2, 4, 4], &count(32)));
    write("table", &Array::ints(I32, &[2, 1], &[2, 0]));
    write("table9", &Array::ints(I32, &[2, 1], &[2, 9]));
    write("table_negative", &Array::ints(I32, &[2, 1], &[-1, 0]));
    write("lens", &Array::ints(I32, &[2], &[2, 1]));
    write("lens9", &Array::ints(I32, &[2], &[2, 9]));
    write("lens_negative", &Array::ints(I32, &[2], &[2, -1]));
    write("int_heads", &Array::ints(I32, &[3, 2, 4, 4], &ints(96)));
    write("int_mask", &Array::ints(I32, &[4, 4], &[0; 16]));
    write("column", &Array::floats(F32, &[2, 1], &count(2)));
    write("pair", &Array::floats(F32, &[2], &count(2)));
    write("cosines", &Array::floats(F32, &[5, 2], &count(10)));
    write("positions", &Array::ints(I64, &[3, 4], &[0; 12]));
    write("positions9", &Array::ints(I64, &[3, 4], &[0, 1, 2, 3, 4, 5, 0, 0, 0, 0, 0, 0]));
    write("empty", &Array::floats(F32, &[0], &[]));
    fs::write(folder.join("garbage.npy"), "not an array").expect("a file can be written");
    let whole = npy::encode(&Array::floats(F32, &[3], &count(3)));
    fs::write(folder.join("cut.npy"), &whole[..whole.len() - 1]).expect("a file can be written");
    folder
}

#[test]
fn a_batch_goes_on_after_each_bad_line() {
    let folder = files("bad_batch");
    let file = |name: &str| folder.join(format!("{name}.npy")).display().to_string();
    let good = |i: usize| json!({"op": "sum", "inputs": [file("matrix")], "outputs": [file(&format!("good{i}"))]});
    let mut lines = Vec::new();
    for (i, bad) in BAD.iter().enumerate() {
        let inputs: Vec<_> = bad.inputs.iter().map(|name| file(name)).collect();
        let mut line = json!({"op": bad.op, "inputs": inputs, "outputs": [file("out")]});
        for (key, value) in bad.options {
            line[*key] = serde_json::from_str(value).expect("JSON");
        }
        lines.extend([line.to_string(), good(i).to_string()]);
    }
    for broken in ["{", "[]", "{\"op\": 3}", "{\"op\": \"sum\"}", "{\"inputs\": [], \"outputs\": []}"] {
        lines.extend([broken.to_owned(), good(0).to_string()]);
    }
    let batch = folder.join("batch.jsonl");
    fs::write(&batch, lines.join("\n") + "\n").expect("the batch can be written");
    let output = program::command().args(["run", "--batch"]).arg(&batch).output().expect("the program starts");
    let stdout = String::from_utf8(output.stdout).expect("the program writes UTF-8");
    let answers: Vec<Json> = stdout.lines().map(|l| serde_json::from_str(l).expect("a line of JSON")).collect();
    assert_eq!(answers.len(), lines.len(), "a result for each line: {stdout}");
    let mut wrong = Vec::new();
    for (i, pair) in answers.chunks(2).enumerate() {
        let what = BAD.get(i).map_or_else(|| lines[2 * i].clone(), |bad| format!("{} ({})", bad.what, bad.op));
        let has_reason = pair[0]["error"].as_str().is_some_and(|e| !e.is_empty() && !e.contains('\n'));
        if pair[0]["ok"] != json!(false) || !has_reason || folder.join("out.npy").exists() {
            wrong.push(format!("{what}: {}", pair[0]));
        }
        if pair[1]["ok"] != json!(true) {
            wrong.push(format!("the line after {what}: {}", pair[1]));
        }
    }
    for i in 0..BAD.len() {
        let sum = npy::read(&folder.join(format!("good{i}.npy")), F32).expect("the good line wrote its result");
        assert_eq!(sum.values[0].float(), 66.0);
    }
    assert!(wrong.is_empty(), "{} lines:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_single_command_says_why_in_one_line() {
    let folder = files("bad_single");
    let mut wrong = Vec::new();
    // Every second one, and all of attention: lists are looked at before anything is launched.
    let is_told = |(i, bad): &(usize, &Bad)| i % 2 == 0 || ATTENTION.contains(&bad.op);
    for (_, bad) in BAD.iter().enumerate().filter(is_told) {
        let mut args = vec![bad.op.to_owned()];
        args.extend(bad.inputs.iter().map(|name| folder.join(format!("{name}.npy")).display().to_string()));
        args.extend(["-o".to_owned(), folder.join("out.npy").display().to_string()]);
        for (key, value) in bad.options {
            let value: String = value.chars().filter(|c| !"[]\"".contains(*c)).collect();
            // An equals sign, as a value may begin with a dash.
            args.push(if value == "true" { format!("--{key}") } else { format!("--{key}={value}") });
        }
        let args: Vec<_> = args.iter().map(String::as_str).collect();
        let output = program::run(&args);
        let stderr = String::from_utf8_lossy(&output.stderr);
        let is_one_line = stderr.lines().count() == 1 && stderr.starts_with("error: ");
        let nothing_is_written = output.stdout.is_empty() && !folder.join("out.npy").exists();
        if output.status.code() != Some(2) || !is_one_line || !nothing_is_written {
            wrong.push(format!("{}: {}, {stderr}", bad.what, output.status));
        }
    }
    assert!(wrong.is_empty(), "{} commands:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn any_byte_but_zero_is_true() {
    let folder = program::folder("truths");
    let path = |name: &str| folder.join(format!("{name}.npy")).display().to_string();
    npy::write(&folder.join("bytes.npy"), &Array::ints(U8, &[4], &[2, 0, 1, 255]));
    let output = program::run(&["sum", &path("bytes"), "--input-dtype", "bool", "-o", &path("out")]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(npy::read(&folder.join("out.npy"), I64).expect("a result").values[0].int(), 3);
}

#[test]
fn one_type_of_eight_bits_is_that_of_keys_and_values_that_are_bytes() {
    let folder = program::folder("narrow_keys");
    let path = |name: &str| folder.join(format!("{name}.npy")).display().to_string();
    npy::write(&folder.join("q.npy"), &Array::floats(F32, &[1, 2, 3, 4], &[0.5; 24]));
    // Ones and twos of e4m3.
    npy::write(&folder.join("k.npy"), &Array::ints(U8, &[1, 1, 5, 4], &[0x38; 20]));
    npy::write(&folder.join("v.npy"), &Array::ints(U8, &[1, 1, 5, 4], &[0x40; 20]));
    let run = |inputs: [&str; 3]| {
        let [q, k, v] = inputs.map(path);
        program::run(&["attention", &q, &k, &v, "-o", &path("o"), "--input-dtype", "f8e4m3", "--scale-v", "0.25"])
    };
    let output = run(["q", "k", "v"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found = npy::read(&folder.join("o.npy"), F32).expect("a result");
    assert!(found.values.iter().all(|value| value.float() == 0.5), "{:?}", found.values);
    // Where nothing is of bytes, the first input is what is mistaken.
    let output = run(["q", "q", "q"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("f32 cannot be taken as f8e4m3"));
}

#[test]
fn a_batch_takes_no_options_of_a_command() {
    let folder = files("batch_options");
    let batch = folder.join("batch.jsonl");
    fs::write(&batch, "").expect("the batch can be written");
    let batch = batch.display().to_string();
    for args in [&["--batch", &batch, "--axes", "0"][..], &["sum", "--batch", &batch], &["--list", "--keepdims"]] {
        let output = program::run(args);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && stderr.contains("takes no operator"), "{args:?}: {stderr}");
    }
    assert!(program::run(&["--batch", &batch]).status.success(), "a batch of nothing is done at once");
}

#[test]
fn a_single_command_does_what_the_batch_does() {
    let folder = files("single");
    let path = |name: &str| folder.join(format!("{name}.npy")).display().to_string();
    let output = program::run(&["sum", &path("matrix"), "-o", &path("out"), "--axes=-1", "--keepdims"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let sums = npy::read(&folder.join("out.npy"), F32).expect("a result");
    assert_eq!(sums.shape, [3, 1]);
    assert_eq!(sums.values.iter().map(|v| v.float()).collect::<Vec<_>>(), [6.0, 22.0, 38.0]);
    let device = std::env::var("WARPFOLD_DEVICE").unwrap_or_else(|_| "virtual".to_owned());
    let output = program::run(&["sum", &path("ints"), "-o", &path("out"), "--axes", "0,1", "--device", &device]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(npy::read(&folder.join("out.npy"), F32).expect("a result").values[0].int(), 66);
}

#[test]
fn a_line_may_spell_options_with_underscores_and_one_axis_without_brackets() {
    let folder = files("spelling");
    let path = |name: &str| folder.join(format!("{name}.npy")).display().to_string();
    let spell = |axes: Json, option: &str| {
        let (inputs, outputs) = ([path("matrix")], [path("out")]);
        json!({"op": "max", "inputs": inputs, "outputs": outputs, "axes": axes, option: true}).to_string()
    };
    let lines = [spell(json!(-1), "ignore_nan"), spell(json!([-1]), "ignore-nan"), spell(json!("x"), "ignore-nan")];
    let batch = folder.join("batch.jsonl");
    fs::write(&batch, lines.join("\n")).expect("the batch can be written");
    let output = program::command().args(["run", "--batch"]).arg(&batch).output().expect("the program starts");
    let stdout = String::from_utf8(output.stdout).expect("the program writes UTF-8");
    let are_ok: Vec<_> = stdout.lines().map(|line| line.contains("\"ok\":true")).collect();
    assert_eq!(are_ok, [true, true, false], "{stdout}");
    let maxima = npy::read(&folder.join("out.npy"), F32).expect("a result");
    assert_eq!(maxima.values.iter().map(|v| v.float()).collect::<Vec<_>>(), [3.0, 7.0, 11.0]);
}
