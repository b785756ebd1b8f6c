//! How often each of 256 values occurs, as the [operator](warpfold_kernels::histogram) defines it.

mod instance;

pub mod ladder;

pub use ladder::LADDER;
