//! Whole servers under one seed: clients over HTTP, the engine, and one to eight devices.
//!
//! Time is virtual, connections are in memory, and every choice is drawn from the seed: who comes
//! when, sends in which pieces, reads slowly or not at all, closes half or leaves; bodies that are
//! wrong; full pools and preemptions; copies and steps that fail, devices that are lost; adapters
//! that come and go; a server that is told to end. `WARPFOLD_SCHEDULES` says how many scenarios,
//! and `WARPFOLD_SEED` repeats one.

mod clients;
mod http;
mod pipe;
mod play;
mod world;

use std::cell::RefCell;

use play::{Alone, play};
use warpfold_engine::simulation::{Seen, explore, seeds};

/// Scenarios of CI's sample.
const SAMPLE: u64 = 1_500;

#[test]
fn every_answer_of_a_server_has_the_bits_of_the_request_alone() {
    let all = seeds(SAMPLE);
    let is_sample = all.end - all.start >= SAMPLE;
    let alone = RefCell::new(Alone::new());
    let run = |seed| play(seed, &mut alone.borrow_mut()).0;
    let seen = explore(all, run).unwrap_or_else(|failure| panic!("{failure}"));
    let Seen { answered, refused, failed, left, preempted, hits, copied, adapted, .. } = seen;
    let each = [answered, refused, failed, left, preempted, hits, copied, adapted];
    assert!(!is_sample || each.iter().all(|n| *n > 20), "too little has happened: {seen:?}");
    println!("{seen:?}");
}

#[test]
fn a_seed_repeats_everything_that_happened() {
    let mut alone = Alone::new();
    for seed in 0..40 {
        assert_eq!(play(seed, &mut alone), play(seed, &mut alone), "seed {seed}");
    }
}
