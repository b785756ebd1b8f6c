//! Ladders: one problem each, solved by kernels from the first that comes to mind to the one that
//! ships.
//!
//! Start with [`ladder`]: what a ladder is, the list of [all of them](ladder::LADDERS), and how one
//! is run and judged. Each has a folder with its rungs: [`vector_add`], [`reduce`], [`softmax`],
//! [`norm`], [`scale`], [`gemv`], [`histogram`], [`gemm`], [`hgemm`], [`conv`], [`attention`],
//! [`elementwise`], [`dot`], [`groups`], [`scan`]. [`row`] is what ladders on rows have in common.
//! [`allocation`], [`transfer`] (host and device) and [`all_reduce`] (several devices) have rungs
//! of their own kind. [`exercise`] has the book's exercises and their judge. These are lessons:
//! what tensors use is in [`warpfold_kernels`], and where a ladder ends with a kernel that ships,
//! its last rung is that kernel.

pub mod all_reduce;
pub mod allocation;
pub mod attention;
pub mod conv;
pub mod dot;
pub mod elementwise;
pub mod exercise;
pub mod gemm;
pub mod gemv;
pub mod groups;
pub mod hgemm;
pub mod histogram;
pub mod ladder;
pub mod norm;
pub mod reduce;
pub mod row;
pub mod scale;
pub mod scan;
pub mod softmax;
pub mod transfer;
pub mod vector_add;

mod element;
mod error;
mod helpers;
mod list;
mod sources;

pub use element::LadderElement;
pub use error::{Error, ErrorKind};
pub use list::{all_kernels, rungs};
pub use sources::{rung_helpers, rung_source, source_of_path};
