//! Layer norm and RMS norm.
//!
//! Layer norm: `y[i] = (x[i] - mean) * rstd * scale[i] + bias[i]`, where `mean` is that of the row
//! and `rstd = 1 / sqrt(variance + eps)`, the variance being the mean of `(x[j] - mean)²`. RMS
//! norm: `y[i] = x[i] * rstd * scale[i]` with `rstd = 1 / sqrt(mean of x[j]² + eps)`.
//!
//! Contract: rows of `row_len` elements, side by side from a multiple of 16 bytes on; `scale` and
//! `bias` have one row's length and the rows' type; the output overlaps no input. `mean` and `rstd`
//! come out as one `f32` a row; of a row without elements they are NaN. Registers compute in `f32`,
//! whatever memory holds; the error of a result is at most [`error_bound`]. A NaN or an infinity in
//! a row makes its results NaN.
//!
//! [`ladder`] is layer norm, [`rms`] is RMS norm.

pub mod ladder;
pub mod rms;

mod instance;
mod reference;

pub use ladder::LADDER;
pub use reference::{error_bound, rstd_error_bound};
pub use rms::RMS;
