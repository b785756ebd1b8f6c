//! Whole servers under one seed: clients over HTTP, the engine, and one to eight devices.
//!
//! Time is virtual, connections are in memory, and every choice is drawn from the seed: who comes
//! when, sends in which pieces, reads slowly or not at all, closes half or leaves; bodies that are
//! wrong; full pools and preemptions; copies and steps that fail, devices that are lost; adapters
//! that come and go; weights that are exchanged, a model that sleeps; a server that is told to end.
//! `WARPFOLD_SCHEDULES` says how many scenarios, and `WARPFOLD_SEED` repeats one.
//! `docs/notes/simulation.md` tells what is found.

mod clients;
mod faults;
mod http;
mod pipe;
mod play;
mod world;

use std::cell::RefCell;
use std::ops::Range;
use std::path::Path;

use faults::PlantedFault;
use play::{AloneServer, play};
use warpfold::{Device, Profile, Queue};
use warpfold_engine::simulation::{ModelSizes, Scenario, ScenarioFailure, ScenarioSeen, alone, explore};
use warpfold_models::{LanguageModel, ModelFiles};

/// Scenarios of CI's sample.
const SAMPLE: u64 = 600;

/// Scenarios for one on real kernels.
const SCRIPTED_EACH: u64 = 300;

/// Scenarios within which a planted fault must be found.
const MOST_SCENARIOS: u64 = 10_000;

/// The seeds to try: CI's sample, or as many as are asked for, or one.
fn seeds() -> Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    match number("WARPFOLD_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("WARPFOLD_SCHEDULES").unwrap_or(SAMPLE),
    }
}

#[track_caller]
fn fail(failure: &ScenarioFailure) -> ! {
    let commit = option_env!("WARPFOLD_COMMIT").unwrap_or("this tree");
    panic!("{failure} (WARPFOLD_SEED={} repeats it, at {commit})", failure.seed)
}

#[test]
fn every_answer_of_a_server_has_the_bits_of_the_request_alone() {
    let all = seeds();
    let is_sample = all.end - all.start >= SAMPLE;
    let alone = RefCell::new(AloneServer::new());
    let run = |seed| play(seed, None, &mut alone.borrow_mut()).0;
    // Weights that wait for their turn while the server begins to end were a 500.
    explore(25_623..25_624, run).unwrap_or_else(|failure| fail(&failure));
    let seen = explore(all, run).unwrap_or_else(|failure| fail(&failure));
    let ScenarioSeen { answered, refused, failed, left, preempted, hits, copied, adapted, reweighted, .. } = seen;
    let each = [answered, refused, failed, left, preempted, hits, copied, adapted, reweighted];
    assert!(!is_sample || each.iter().all(|n| *n > 20), "too little has happened: {seen:?}");
    println!("{seen:?}");
}

#[test]
fn a_seed_repeats_everything_that_happened() {
    let mut alone = AloneServer::new();
    for seed in 0..40 {
        assert_eq!(play(seed, None, &mut alone), play(seed, None, &mut alone), "seed {seed}");
    }
}

#[test]
fn a_fault_in_a_server_or_what_it_stands_on_is_found() {
    let mut missed = Vec::new();
    for fault in PlantedFault::all() {
        let alone = RefCell::new(AloneServer::new());
        match explore(0..MOST_SCENARIOS, |seed| play(seed, Some(fault), &mut alone.borrow_mut()).0) {
            Ok(_) => missed.push(fault),
            Err(failure) => println!("{fault:?}: found after {}", failure.seed + 1),
        }
    }
    assert!(missed.is_empty(), "in {MOST_SCENARIOS} scenarios nothing shows {missed:?}");
}

/// The smallest of the fixtures, on a virtual GPU of its own.
fn language_model() -> LanguageModel {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/models/llama");
    let files = ModelFiles::open(&folder).expect("the files are right").verified();
    files.load(&Queue::of(&Device::virtual_gpu(Profile::H200)), files.dtype(), &mut |_, _| ()).expect("weights")
}

#[test]
fn answers_of_real_kernels_have_the_bits_of_the_request_alone() {
    const SIZES: ModelSizes = ModelSizes { vocab: 288, max_len: 64, adapters: 0, weights: 0 };
    let all = seeds();
    let num = (all.end - all.start).div_ceil(SCRIPTED_EACH);
    let run = |seed| {
        let scenario = Scenario::draw(seed, SIZES);
        let ranks = (0..scenario.ranks).map(|_| language_model()).collect();
        scenario.run(ranks, &mut |request, _| alone(language_model(), request))
    };
    let seen = explore(all.start..all.start + num, run).unwrap_or_else(|failure| fail(&failure));
    println!("{seen:?}");
}
