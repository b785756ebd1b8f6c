//! The one check of sizes that a launch takes as 32 bits, and of how addresses are aligned.

use crate::{Error, ErrorKind};

// THRESHOLD: more blocks, or a size of 32 bits beyond it, are refused; tested by
// crates/kernels/tests/parts/plans.rs::grids_take_as_many_blocks_as_gpus_do
/// Blocks in x, which is the dimension that takes the most (CUDA C++ Programming Guide, "Technical
/// Specifications per Compute Capability").
const LIMIT: u64 = i32::MAX as u64;

/// Blocks in y, and in z (the same table).
// THRESHOLD: more blocks are refused, or walk over what is left; tested by
// crates/kernels/tests/parts/plans.rs::grids_take_as_many_blocks_as_gpus_do
pub(crate) const MAX_BLOCKS_Y: u64 = 65_535;

/// So many blocks as a grid takes them in x.
///
/// # Errors
/// [`ErrorKind::TooLarge`].
pub(crate) fn grid_size(blocks: u64) -> Result<u32, Error> {
    within_limit("the grid", blocks)
}

/// So many blocks as a grid takes them in y.
///
/// # Errors
/// [`ErrorKind::TooLarge`].
pub(crate) fn grid_size_y(blocks: u64) -> Result<u32, Error> {
    if blocks > MAX_BLOCKS_Y {
        return Err(ErrorKind::TooLarge { what: "the grid in y", size: blocks, limit: MAX_BLOCKS_Y }.into());
    }
    Ok(blocks as u32)
}

/// A number that a kernel takes as 32 bits, with room to step past it by a block.
///
/// # Errors
/// [`ErrorKind::TooLarge`].
pub(crate) fn within_limit(what: &'static str, size: u64) -> Result<u32, Error> {
    if size > LIMIT {
        return Err(ErrorKind::TooLarge { what, size, limit: LIMIT }.into());
    }
    Ok(size as u32)
}

/// The largest power of two up to 16 that all addresses are multiples of: what a problem knows of
/// them.
#[must_use]
pub fn alignment_of(addresses: impl IntoIterator<Item = u64>) -> u64 {
    let all = addresses.into_iter().fold(16, |all, address| all | address);
    1 << all.trailing_zeros()
}
