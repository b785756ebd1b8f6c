//! Tests that run on every device at hand, and the corpus that proves the checks of the virtual GPU.

pub mod corpus;
