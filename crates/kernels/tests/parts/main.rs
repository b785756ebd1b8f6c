//! Parts of the library that no operator shows.
//!
//! What is private is compiled here a second time, by the file, with the tests at its end: a second
//! build of the whole library for them would cost more than all other tests of this crate.

#![allow(dead_code, unreachable_pub, reason = "the tests in these files are what is used of them")]

mod choices;
mod matmul;
mod plans;
mod values;

#[path = "../../src/plan/grid.rs"]
mod grid;
#[path = "../../src/map/injective.rs"]
mod injective;
#[path = "../../src/layout.rs"]
mod layout;
#[path = "../../src/plan/lru.rs"]
mod lru;
#[path = "../../src/operations/number.rs"]
mod number;
#[path = "../../src/map/reciprocal.rs"]
mod reciprocal;

// What these files call `crate::…`.
use warpfold_kernels::{Dtype, Error, ErrorKind};
