//! Scaling by the largest magnitude: `y[i] = x[i] / s`, where `s` is the largest `|x[j]|` of the
//! row.
//!
//! Contract: rows of `row_len` elements, side by side from a multiple of 16 bytes on; the output
//! overlaps no input; `s` comes out as one `f32` a row. Any number of rows of any length; of a row
//! without elements `s` is 0. A row of zeros stays as it is. A NaN makes `s` and its whole row NaN;
//! an infinity makes itself NaN and the others 0. The only error is that of rounding the quotient,
//! to `f32` and then to the element type: [`error_bound`].

pub mod ladder;

mod instance;
mod reference;

pub use ladder::LADDER;
pub use reference::error_bound;
