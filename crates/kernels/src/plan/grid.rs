//! The one check of sizes that a launch takes as 32 bits, and of how addresses are aligned.

use crate::{Error, ErrorKind};

/// Blocks in x, which is the dimension that takes the most (CUDA C++ Programming Guide, "Technical
/// Specifications per Compute Capability").
const LIMIT: u64 = i32::MAX as u64;

/// So many blocks as a grid takes them in x.
///
/// # Errors
/// [`ErrorKind::TooLarge`].
pub(crate) fn grid_size(blocks: u64) -> Result<u32, Error> {
    within_limit("the grid", blocks)
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
