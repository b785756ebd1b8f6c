//! The ladders: their form, what they print and become, what they compute.

mod all_reduce;
mod allocation;
mod assemble;
mod exercise_files;
mod exercises;
mod explained;
mod gemm;
mod gemv;
mod ladder_form;
mod lists;
mod snapshots;
mod transfer;

// What is private in these files is tested at their ends.
#[allow(dead_code, unreachable_pub, reason = "the tests in it are what is used of it")]
#[path = "../../src/ladder/heads.rs"]
mod heads;
#[allow(dead_code, unreachable_pub, reason = "the tests in it are what is used of it")]
#[path = "../../src/exercise/plan.rs"]
mod plan;
#[allow(dead_code, unreachable_pub, reason = "the tests in it are what is used of it")]
#[path = "../../src/ladder/sizes.rs"]
mod sizes;

// What they call `crate::…`.
use warpfold_ladders::{Error, ErrorKind};
