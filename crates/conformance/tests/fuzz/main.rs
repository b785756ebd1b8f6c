//! Hostile input, drawn from a seed: no panic, no run beyond its limit, no memory beyond a bound.
//!
//! Ordinary tests, so that they run everywhere: each mutates the corpus and the fixtures a bounded
//! number of times. `FUZZ_ROUNDS=100` makes each of them a hundred times as long, `FUZZ_SEED=7`
//! draws other mutants, `FUZZ_BYTES=500000000` is the most memory that the process may hold. What a
//! run prints when it fails is the mutant's seed and text; a text that failed once goes to
//! `tests/fuzz/found/`, which every run begins with.

mod mutate;
mod npy;
mod parser;
mod simulator;

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Multiplies the number of mutants.
fn rounds() -> u64 {
    number("FUZZ_ROUNDS").unwrap_or(1)
}

/// Bytes that the process may hold at most, 2 GiB unless told otherwise.
fn most_bytes() -> u64 {
    number("FUZZ_BYTES").unwrap_or(2 << 30)
}

/// Where the seeds of this run begin.
fn first_seed() -> u64 {
    number("FUZZ_SEED").unwrap_or(1).wrapping_mul(1 << 32)
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

/// Runs `try_one`, and tells of the input that it panics for.
#[track_caller]
fn without_panic<T>(what: &str, input: &str, try_one: impl FnOnce() -> T) -> T {
    match catch_unwind(AssertUnwindSafe(try_one)) {
        Ok(value) => value,
        Err(_) => panic!("{what} panics for:\n{input}"),
    }
}

/// Texts that failed once, with their names.
fn found() -> Vec<(String, String)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fuzz/found");
    let mut texts: Vec<(String, String)> = std::fs::read_dir(folder)
        .expect("the folder is there")
        .map(|entry| entry.expect("it can be listed").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "ptx"))
        .map(|path| (path.display().to_string(), std::fs::read_to_string(&path).expect("it is text")))
        .collect();
    texts.sort();
    texts
}

/// Texts to mutate: the corpus, and some of what nvcc and Triton make.
fn seeds() -> Vec<(String, String)> {
    use warpfold_conformance::corpus::{Case, Folder};
    let corpus = [Folder::Pass, Folder::Fault].into_iter().flat_map(|folder| Case::all(folder).expect("a corpus"));
    let mut texts: Vec<_> = corpus.map(|case| (case.name, case.text)).collect();
    for name in ["nvcc/atomics.sm_80", "nvcc/calls.sm_80", "nvcc/hopper.sm_90a", "triton/softmax.sm_90a"] {
        let path = format!("{}/../../fixtures/{name}.ptx", env!("CARGO_MANIFEST_DIR"));
        texts.push((name.to_owned(), std::fs::read_to_string(path).expect("a fixture")));
    }
    texts
}
