//! The language: what it prints, refuses and computes.

mod accuracy;
mod assemble;
mod lines;
mod named;
mod rules;
mod snapshots;
mod suite;
mod types;

#[path = "../../src/round_to_odd.rs"]
mod round_to_odd;
