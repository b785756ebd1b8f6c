//! Histogram of 256 values, as the [operator](warpfold_kernels::histogram) defines it.

mod instance;

pub mod ladder;

pub use ladder::LADDER;
