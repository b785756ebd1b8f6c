//! Softmax: `y[i] = e^(x[i] - m) / sum over j of e^(x[j] - m)`, where `m` is the largest element.
//!
//! Contract: rows of `row_len` elements, side by side from a multiple of 16 bytes on; the output
//! overlaps no input. Any number of rows of any length; a row without elements has no output.
//! Registers compute in `f32`, whatever memory holds; the error of a result is at most
//! [`error_bound`].
//!
//! A NaN or an infinity in a row makes all of its results NaN, as in the formula; so does a row of
//! nothing but minus infinity. Minus infinity beside a finite number gives 0.
//!
//! [`ladder`] has one softmax a row, [`vector`] one over everything, which blocks share.

pub mod ladder;
pub mod vector;

mod instance;
mod reference;

pub use ladder::LADDER;
pub use reference::error_bound;
pub use vector::VECTOR;
