//! The inclusive sums of a vector: `output[i]` is the sum of `input[0..=i]`.
//!
//! Contract: two arrays of `len` elements that do not overlap. Integers wrap, so that every rung
//! gives the same bits; floats are added in an order that the kernel and `len` fix, but for
//! `look_back`, whose order depends on how far the tiles before have come. The scan that tensors
//! use, whose order is fixed, is in [`fold`](warpfold_kernels::fold).

pub mod ladder;

mod instance;

pub use ladder::LADDER;
