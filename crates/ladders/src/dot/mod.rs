//! The dot product of two vectors: the sum of `a[i] * b[i]`.
//!
//! Contract: two arrays of `len` elements of `f32`, aligned to 16 bytes; of no elements the result
//! is 0. Where a rung adds the blocks' sums by atomics, the order is that of time.

pub mod ladder;

mod instance;

pub use ladder::LADDER;
