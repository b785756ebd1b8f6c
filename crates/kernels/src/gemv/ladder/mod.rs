//! The ladder `gemv`.

mod r05_planned;

pub use r05_planned::{Rows, Shape, planned};
