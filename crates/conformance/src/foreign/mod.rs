//! PTX that nobody here wrote, run on the virtual GPU and judged by independent references.
//!
//! The cases are data: `fixtures/cases.json`, read by [`case`]. [`generate`] makes the inputs,
//! [`virtual_gpu`] or [`on_device`] launches, and a function of [`mod@reference`] compares what
//! came out with what it computes itself.

pub mod array;
pub mod case;
pub mod expect;
pub mod generate;
pub mod on_device;
pub mod reference;
pub mod run;
pub mod virtual_gpu;

use std::path::PathBuf;

/// The folder of the fixtures, in the repository root.
#[must_use]
pub fn fixtures() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures"))
}
