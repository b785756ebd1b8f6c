//! Tests that run on every device at hand: foreign PTX with its references, the corpus that proves
//! the checks of the virtual GPU, the proofs of single instructions, kernels without one of their
//! synchronisations, the cases that tell models of the hardware apart, the reference of the
//! operators, which cases are tried, and what the benches share.

pub mod calibration;
pub mod corpus;
pub mod elements;
pub mod foreign;
pub mod instructions;
pub mod mutants;
pub mod reference;
pub mod sample;
