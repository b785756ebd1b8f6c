//! The product of a matrix and a vector, `y = A x`, as the [operator](warpfold_kernels::gemv)
//! defines it.

mod instance;

pub mod ladder;

pub use ladder::LADDER;
