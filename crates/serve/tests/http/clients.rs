//! Clients that others have written, unchanged. `.ci/run` gets them; without them these tests say
//! that they do nothing.

use std::ffi::OsString;
use std::process::Command;

use warpfold_engine::Config;
use warpfold_engine::scripted::Scripted;
use warpfold_serve::Options;

use crate::support::{MAX_LEN, Site, VOCAB, config, options};

const KEY: &str = "sesame";

/// Runs a client that the environment names, with a server's address, its key and its model.
fn run(variable: &str, script: Option<&str>) {
    let Some(program): Option<OsString> = std::env::var_os(variable) else {
        eprintln!("skipped: {variable} names no client");
        return;
    };
    let site = Site::roomy(Options { keys: vec![KEY.to_owned()], ..options() });
    let url = format!("http://{}/v1", site.address());
    let output = Command::new(program).args(script).args([&url, KEY, "scripted"]).output().expect("the client runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stdout.ends_with(b"all right\n"));
    site.end();
}

/// The clients of the table in the book: all whose packages are there, or, unless all tests are to
/// run, the two that are quick.
#[test]
fn the_table_of_clients_says_what_they_do() {
    let Some(program) = std::env::var_os("CLIENTS_PYTHON") else {
        eprintln!("skipped: CLIENTS_PYTHON names no Python with packages of clients");
        return;
    };
    let quick: &[&str] = if std::env::var_os("WARPFOLD_ALL_TESTS").is_some() { &[] } else { &["openai", "anthropic"] };
    // What an agent tells its model is long.
    let (model, config) = (Scripted::new(VOCAB, 64 * MAX_LEN).overlapping(), Config { num_blocks: 2048, ..config() });
    let site = Site::with(Options { keys: vec![KEY.to_owned()], ..options() }, model, config);
    let url = format!("http://{}/v1", site.address());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients.py");
    let output = Command::new(program).arg(script).args([&url, KEY, "scripted"]).args(quick).output();
    let output = output.expect("Python runs");
    let table = String::from_utf8(output.stdout).expect("UTF-8");
    println!("{table}");
    assert!(output.status.success(), "{table}{}", String::from_utf8_lossy(&output.stderr));
    let book = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/book/src/serving.md");
    let book = std::fs::read_to_string(book).expect("the book is there");
    let rows: Vec<&str> =
        table.lines().filter(|line| line.starts_with("| ") && !line.contains("not installed")).collect();
    assert!(rows.len() > quick.len());
    rows.iter().for_each(|row| assert!(book.contains(row), "the book lacks the row {row}"));
    site.end();
}

#[test]
fn the_openai_package_of_python_talks_to_the_server() {
    run("OPENAI_PYTHON", Some(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/openai_client.py")));
}

#[test]
fn the_anthropic_package_of_python_talks_to_the_server() {
    run("ANTHROPIC_PYTHON", Some(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/anthropic_client.py")));
}

#[test]
fn the_ollama_package_of_python_talks_to_the_server() {
    run("OLLAMA_PYTHON", Some(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/ollama_client.py")));
}

#[test]
fn async_openai_talks_to_the_server() {
    run("ASYNC_OPENAI", None);
}
