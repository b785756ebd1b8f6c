//! Matrix products on tensor cores: `c[i, j] = sum over l of a[i, l] * b[j, l]`, in `f16` or `bf16`
//! with sums in `f32`.
//!
//! Contract: `a` is `m` x `k`, `b` is `n` x `k` (the weights of a linear layer lie so), `c` is `m`
//! x `n`, of any sizes but zero. Rows lie [`pitch`] elements apart, so that each starts at a
//! multiple of 16 bytes, as bulk copies need it. What is between rows is not used; of `c` it may be
//! overwritten, as copies store whole groups of 16 bytes. `c` overlaps neither input.
//!
//! Accuracy: products are exact, sums are `f32` and rounded to nearest even at the end. Tensor
//! cores add in an order of their own and may truncate: `|error| <= 2 k eps sum |a b|` with `eps =
//! 2^-23` covers both devices.

pub mod ladder;

mod block;
mod instance;

pub use block::{Half, pitch};
pub use ladder::LADDER;
