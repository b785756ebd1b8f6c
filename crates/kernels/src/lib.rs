//! The kernel library: what tensors are computed with.
//!
//! Start with [`fold`], which carries any monoid through warp, block and grid, and with [`reductions`], the table of those
//! that are built in. [`rowwise`] computes what rows become, [`map`] and [`operations`] what elements become, [`matmul`],
//! [`gemv`] and [`conv`] products; [`attention`] attends, [`rotary`] turns what it attends to and [`kv_cache`] keeps it;
//! [`histogram`], [`nms`], [`unique`], [`gather`], [`cross_entropy`] and [`softmax_v`] are operators by themselves. [`elements`] brings elements of any type to registers and back.
//!
//! How such kernels come to be, step by step, is shown by the ladders of the crate `warpfold-ladders`, which nothing here
//! uses. Deliberately absent: PTX text (the language writes it) and any question which device a kernel is on.

pub mod attention;
pub mod conv;
pub mod cross_entropy;
pub mod elements;
pub mod fold;
pub mod gather;
pub mod gemv;
pub mod histogram;
pub mod kv_cache;
pub mod layout;
pub mod map;
pub mod matmul;
pub mod nms;
pub mod operations;
pub mod plan;
pub mod reductions;
pub mod rotary;
pub mod rowwise;
pub mod softmax_v;
pub mod unique;

mod any_kernel;
mod dtype;
mod error;
mod kept;
mod list;
mod ready;

pub use any_kernel::AnyKernel;
pub use dtype::Dtype;
pub use error::{Error, ErrorKind};
pub use list::{Listed, Shipped, kernels};
pub use plan::Workspace;
pub use ready::Ready;
