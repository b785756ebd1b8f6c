//! The border to JavaScript: a command in JSON goes in, its outcome in JSON comes out.
//!
//! The page asks [`room`] for bytes, writes the command there, calls [`run`], and reads
//! [`outcome_bytes`] bytes from where `run` says. An instance of the module is for one command: it
//! begins with fresh memory as a process does.
#![allow(unsafe_code, reason = "names that the page calls, and functions of the page")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use warpfold_ladders::exercise::EXERCISES;

use crate::host::{self, PageHost};

mod imported {
    //! Functions that the page has.
    #[link(wasm_import_module = "page")]
    // SAFETY: the page has these functions with these types, and they only read the bytes that they
    // are given.
    unsafe extern "C" {
        pub(crate) safe fn milliseconds() -> f64;
        pub(crate) safe fn unix_seconds() -> f64;
        pub(super) safe fn progress(text: *const u8, bytes: usize, done: f64, all: f64);
        pub(super) safe fn panicked(text: *const u8, bytes: usize);
    }
}

pub(crate) use imported::{milliseconds, unix_seconds};

/// Tells the page how far a run is.
pub(crate) fn progress(what: &str, done: u64, all: u64) {
    imported::progress(what.as_ptr(), what.len(), done as f64, all as f64);
}

/// A file's contents.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum FileContents {
    Text(String),
    Bytes(Vec<u8>),
}

/// A request of the page.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum PageRequest {
    /// A command of the program.
    Command { arguments: Vec<String>, files: BTreeMap<PathBuf, FileContents> },
    /// The exercises.
    Exercises,
}

/// The end of a command.
#[derive(Debug, Serialize)]
struct CommandOutcome {
    code: u8,
    stdout: String,
    stderr: String,
    /// Files that the command wrote.
    files: BTreeMap<PathBuf, FileContents>,
}

/// An exercise for a page.
#[derive(Debug, Serialize)]
struct ExerciseTask {
    name: &'static str,
    task: &'static str,
    n: u32,
    inputs: usize,
    goals: Vec<String>,
    hints: &'static [&'static str],
    solution: &'static str,
}

static REQUEST: Mutex<Vec<u8>> = Mutex::new(Vec::new());
static OUTCOME: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// Makes room for a request of so many bytes.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn room(bytes: usize) -> *mut u8 {
    let mut request = REQUEST.lock().unwrap_or_else(PoisonError::into_inner);
    request.resize(bytes, 0);
    request.as_mut_ptr()
}

/// Does what the request asks for, and returns where its outcome is.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn run() -> *const u8 {
    std::panic::set_hook(Box::new(|info| {
        let text = info.to_string();
        imported::panicked(text.as_ptr(), text.len());
    }));
    let request = serde_json::from_slice(&REQUEST.lock().unwrap_or_else(PoisonError::into_inner));
    let text = match request.expect("the page writes requests") {
        PageRequest::Command { arguments, files } => serde_json::to_vec(&command(arguments, files)),
        PageRequest::Exercises => serde_json::to_vec(&exercises()),
    };
    let mut outcome = OUTCOME.lock().unwrap_or_else(PoisonError::into_inner);
    *outcome = text.expect("outcomes are strings and numbers");
    outcome.as_ptr()
}

/// Bytes of the last outcome.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn outcome_bytes() -> usize {
    OUTCOME.lock().unwrap_or_else(PoisonError::into_inner).len()
}

fn command(arguments: Vec<String>, files: BTreeMap<PathBuf, FileContents>) -> CommandOutcome {
    let bytes = |contents| match contents {
        FileContents::Text(text) => text.into_bytes(),
        FileContents::Bytes(bytes) => bytes,
    };
    let files = files.into_iter().map(|(path, contents)| (path, bytes(contents))).collect();
    host::exchange(PageHost { arguments, files, ..PageHost::default() });
    let code = crate::run_command();
    let PageHost { mut files, written, stdout, stderr, .. } = host::exchange(PageHost::default());
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let contents = |bytes| match String::from_utf8(bytes) {
        Ok(text) => FileContents::Text(text),
        Err(error) => FileContents::Bytes(error.into_bytes()),
    };
    let left = written.into_iter().filter_map(|path| files.remove_entry(&path));
    let files = left.map(|(path, bytes)| (path, contents(bytes))).collect();
    CommandOutcome { code, stdout: text(stdout), stderr: text(stderr), files }
}

fn exercises() -> Vec<ExerciseTask> {
    let task = |exercise: &'static warpfold_ladders::exercise::Exercise| ExerciseTask {
        name: exercise.name,
        task: exercise.task,
        n: exercise.n,
        inputs: exercise.num_inputs(),
        goals: exercise.goals.iter().map(ToString::to_string).collect(),
        hints: exercise.hints,
        solution: exercise.solution,
    };
    EXERCISES.iter().map(task).collect()
}
