//! Tests that run on every device at hand: foreign PTX with its references, and the corpus that proves the checks of
//! the virtual GPU.

pub mod corpus;
pub mod foreign;
