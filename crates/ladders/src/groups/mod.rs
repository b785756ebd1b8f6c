//! Folds of groups of neighbours: the sum and the maximum of each 32 elements, of each part of a
//! warp, of each 256.
//!
//! These are the building blocks that other kernels call, as kernels of their own. Contract: `len`
//! elements; each group of `width` neighbours leaves one result, the last group of what there is.
//! Integers wrap; floats are added in the order of the tree.

pub mod ladder;

mod instance;

pub use ladder::LADDER;
