//! The sum of all elements of a vector.
//!
//! Contract: `len` elements, aligned to 16 bytes; the sum of nothing is 0. Integers wrap, so that
//! their sum does not depend on the order. Floats are added in the order that the kernel and `len`
//! fix, except where a rung adds the blocks' sums by atomics; the error is at most
//! [`sum_error_bound`](warpfold_kernels::fold::sum_error_bound) of the longest chain of additions
//! that an element goes through.

pub mod ladder;
pub mod lessons;

mod explain;
mod instance;
mod reference;

pub use explain::{Addition, Addressing, Combine, MOST_EXPLAINED, TreeStep, explain};
pub use ladder::LADDER;
pub use lessons::LESSONS;
