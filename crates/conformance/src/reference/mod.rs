//! Expected results of every operator, written from NumPy's and ONNX's documents, independently of
//! the kernels.
//!
//! Start with [`call`]: a call of an operator by name, and [`call::expected`], which says what it
//! has to give or that it has to be refused. An [`answer`] is a value with the error that it may
//! have ([`tolerance`]). Values are exact: integers in 128 bits, floats in an `f64`, sums without
//! rounding ([`exact`]). Sequential, element by element, and slow on purpose.
//!
//! Where NumPy and ONNX leave something open, the choice stands at the operator: means of integers
//! ([`mod@self`]'s `reduce`), NaN as the largest of `topk` (`extremes`), integer quotients
//! (`binary`), scales of zero rows (`scale`), the row that has no softmax (`rows`).

pub mod answer;
pub mod array;
pub mod axes;
pub mod call;
pub mod dtype;
pub mod exact;
pub mod format;
pub mod npy;
pub mod special;
pub mod tolerance;

pub mod binary;
pub mod ternary;
pub mod unary;

mod conv;
mod extremes;
mod histogram;
mod matmul;
mod matrix;
mod moves;
pub mod nms;
mod reduce;
mod rows;
mod scale;
mod scan;
