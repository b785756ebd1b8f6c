//! The corpus of small PTX kernels: what a file says about itself, running it, and judging what the
//! run did.
//!
//! The files lie in `corpus/pass` and `corpus/fault`; `corpus/README.md` describes their header
//! lines and annotations. Start with [`Case`], which is a parsed file; [`run()`] executes it, and
//! [`verdict()`] compares what the run did with what the file promises.

mod case;
mod run;
mod values;
mod verdict;

pub use case::{Argument, Case, Content, Fault, Folder};
pub use run::{run, run_with};
pub use values::{Element, Width};
pub use verdict::{Outcome, verdict};
