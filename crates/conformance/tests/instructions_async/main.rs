//! Proofs of asynchronous copies and barriers: the virtual GPU against references that share no code with it.

mod copies;
mod harness;
