//! Convolution: images and filters of `f32`, as the [operator](warpfold_kernels::conv) defines it.
//!
//! The ladder comes to a product of matrices of which one is never made; tiles, layouts and types
//! beyond that are the operator's.

mod instance;
mod shape;

pub mod ladder;

pub use ladder::LADDER;
