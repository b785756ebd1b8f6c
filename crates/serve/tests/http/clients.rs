//! Clients that others have written, unchanged. `.ci/run` gets them; without them these tests say
//! that they do nothing.

use std::ffi::OsString;
use std::process::Command;

use warpfold_serve::Options;

use crate::support::{Site, options};

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
