//! The kernel library: folds over monoids, and ladders of kernels from naive to shipped.
//!
//! Start with [`ladder`]: what a ladder is, the list of [all of them](ladder::LADDERS), and how one is run and judged.
//! Each operator has a folder with its formula, its sequential reference and its rungs: [`vector_add`], [`reduce`],
//! [`softmax`], [`norm`], [`scale`], [`gemv`], [`histogram`]; [`nms`] and [`unique`] have no ladder. [`row`] is what operators on rows have in common.
//! [`fold`] carries any monoid through warp and block; [`gemm`] and [`hgemm`] are ladders of products of matrices, [`matmul`]
//! and [`conv`] what tensors use. Deliberately absent: PTX text (the language writes it) and any question which device a kernel is on.

pub mod conv;
pub mod cross_entropy;
pub mod elements;
pub mod fold;
pub mod gather;
pub mod gemm;
pub mod gemv;
pub mod hgemm;
pub mod histogram;
pub mod ladder;
pub mod layout;
pub mod map;
pub mod matmul;
pub mod nms;
pub mod norm;
pub mod operations;
pub mod plan;
pub mod reduce;
pub mod reductions;
pub mod row;
pub mod rowwise;
pub mod scale;
pub mod softmax;
pub mod softmax_v;
pub mod unique;
pub mod vector_add;

mod any_kernel;
mod dtype;
mod error;
mod kept;
mod list;

pub use any_kernel::AnyKernel;
pub use dtype::{Dtype, LadderElement};
pub use error::{Error, ErrorKind};
pub use list::{Listed, Shipped, kernels};
pub use plan::Workspace;
