//! The corpus of small PTX kernels: what a file says about itself, and judging what a run of it did.
//!
//! The files lie in `corpus/pass` and `corpus/fault`; `corpus/README.md` describes their header lines and annotations.
//! Start with [`Case`], which is a parsed file; [`verdict`] compares what a run did with what the file promises.

mod case;
mod values;
mod verdict;

pub use case::{Argument, Case, Content, Fault, Folder};
pub use values::{Element, Width};
pub use verdict::{Outcome, verdict};
