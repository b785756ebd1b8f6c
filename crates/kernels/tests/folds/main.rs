//! Folds at every level: of a block, of tensors, of segments, and scans.

mod affine;
mod block;
mod scan;
mod segments;
mod tensors;
