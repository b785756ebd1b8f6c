//! Tests that run on every device at hand: foreign PTX with its references, the corpus that proves the checks of the
//! virtual GPU, and the proofs of single instructions.

pub mod corpus;
pub mod foreign;
pub mod instructions;
