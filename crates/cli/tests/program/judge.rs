//! `judge`: a right kernel passes, and each kernel that cheats is caught by name.

use std::fs;
use std::io::Write;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::{Outcome, finish, folder, program, refused};

const ADD: &str = include_str!("../../../../examples/judge/add.ptx");

fn example() -> String {
    format!("{}/../../examples/judge/add.toml", env!("CARGO_MANIFEST_DIR"))
}

/// Returns true if python3, or what `PYTHON` names, has NumPy; the tests say when they are skipped.
fn has_numpy() -> bool {
    let python = std::env::var_os("PYTHON").unwrap_or_else(|| "python3".into());
    let has = std::process::Command::new(python).args(["-c", "import numpy"]).output();
    let has = has.is_ok_and(|output| output.status.success());
    if !has {
        eprintln!("skipped: python3 has no NumPy; PYTHON names another");
    }
    has
}

/// Judges the kernel of the example with one text in place of another.
fn judged(name: &str, from: &str, to: &str) -> Outcome {
    assert!(ADD.contains(from), "{from}");
    let file = folder(&format!("judge_{name}")).join("kernel.ptx");
    fs::write(&file, ADD.replace(from, to)).expect("written");
    let (task, file) = (example(), file.display().to_string());
    finish(&mut program(&["judge", &task, "--kernel", &file, "--seed", "7"]))
}

#[track_caller]
fn caught(name: &str, from: &str, to: &str) {
    let verdict = judged(name, from, to).ended_with(1).json();
    let tricks = verdict["tricks"].as_array().expect("a list");
    assert!(tricks.iter().any(|trick| trick["name"] == name), "{verdict:#}");
}

#[test]
fn a_right_kernel_passes_the_judge() {
    if !has_numpy() {
        return;
    }
    let verdict = finish(&mut program(&["judge", &example()])).ended_with(0).json();
    assert_eq!((&verdict["passed"], verdict["tricks"].as_array().map(Vec::len)), (&json!(true), Some(0)));
    assert_eq!(verdict["cases"].as_array().map(Vec::len), Some(4));
    assert!(verdict["predicted"]["seconds"].as_f64().is_some_and(|seconds| seconds > 0.0), "{verdict:#}");
}

#[test]
fn kernels_that_cheat_are_caught_by_name() {
    if !has_numpy() {
        return;
    }
    let store = "st.global.f32 [%rd7], %f3;";
    let guard = "setp.ge.u32 %p1, %r5, %r1;";
    caught("no_work", store, "");
    caught("stale_output", guard, "setp.ge.u32 %p1, %r5, 100;");
    caught("special_sizes", guard, "setp.ge.u32 %p1, %r5, 1024;");
    caught("constant_output", "add.f32 %f3, %f1, %f2;", "mov.f32 %f3, 0f3F800000;");
    caught("input_overwritten", store, "st.global.f32 [%rd7], %f3; st.global.f32 [%rd5], %f3;");
    caught("reads_output", "add.f32 %f3, %f1, %f2;", "ld.global.f32 %f3, [%rd7]; add.f32 %f3, %f3, %f1;");
    caught("other_memory", "add.u64 %rd5, %rd1, %rd4;", "add.u64 %rd5, %rd1, 1073741824;");
}

#[test]
fn a_wrong_kernel_is_told_by_element() {
    if !has_numpy() {
        return;
    }
    let verdict = judged("wrong", "add.f32 %f3", "sub.f32 %f3").ended_with(1).json();
    let difference = &verdict["cases"][0]["difference"];
    assert_eq!((&difference["first"][0]["index"], &verdict["clean"]), (&json!([0]), &json!(true)));
    assert!(difference["wrong_elements"].as_u64().is_some_and(|wrong| wrong > 1000), "{difference}");
}

#[test]
fn a_session_of_mcp_lists_and_calls_the_judge() {
    let messages = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}),
        json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call",
               "params": {"name": "judge", "arguments": {"task": {"grid": [1]}}}}),
        json!({"jsonrpc": "2.0", "id": 4, "method": "none"}),
    ];
    let mut command = program(&["judge", "--mcp"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut input = child.stdin.take().expect("piped");
    messages.iter().for_each(|message| writeln!(input, "{message}").expect("it reads"));
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let answers: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(answers.len(), 4, "a notification has no answer: {text}");
    assert_eq!(answers[1]["result"]["tools"][0]["name"], "judge");
    assert_eq!(answers[2]["result"]["isError"], true);
    assert_eq!(answers[3]["error"]["code"], -32601);
}

#[test]
fn a_task_that_is_not_there_is_refused() {
    refused(&["judge", "none.json"], 2, "none.json");
}
