//! Which kernel counts, and how it is launched.

use std::fmt;

use warpfold_device::{LaunchConfig, Limits};

use super::walk::vectors_under_way;
use super::{BLOCK, LARGE_BLOCK};
use crate::{Dtype, Error, ErrorKind};

/// A histogram, as far as its plan needs to know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Problem {
    /// The type of the values: any integer.
    pub dtype: Dtype,
    /// How many values there are.
    pub len: u64,
    /// Values from 0 up to, not including, this are counted.
    pub bins: u64,
}

/// The kernel that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// In shared memory, this many counts for each bin.
    Copies(u32),
    /// In global memory.
    Global,
}

/// How values are counted: a value to print and to compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Choice {
    /// What it is for.
    pub problem: Problem,
    /// The kernel.
    pub algorithm: Algorithm,
    /// Its launch, after clearing the counts; none where nothing can be counted.
    pub launch: Option<LaunchConfig>,
    /// The bins that a value of the type can fall into.
    pub limit: u32,
}

// THRESHOLD: more values are refused, for a count of all of them would wrap; tested by
// crates/kernels/tests/histogram.rs::what_does_not_fit_is_refused
/// The most values: a count is an `i32`.
const MAX_LEN: u64 = i32::MAX as u64;

// THRESHOLD: more bins are refused; tested by
// crates/kernels/tests/histogram.rs::what_does_not_fit_is_refused
/// The most bins: a bin is a 32-bit number.
const MAX_BINS: u64 = 1 << 31;

// THRESHOLD: one block an SM, then counts in global memory; tested by
// crates/kernels/tests/histogram.rs::any_number_of_bins_is_counted
/// Shared memory of a block if two shall fit an SM, of an A100 as well.
const SHARED_BYTES: u64 = 72 << 10;

/// Blocks of [`LARGE_BLOCK`] threads per SM.
const RESIDENT: u32 = 2;

// THRESHOLD: fewer blocks, then counts in global memory; tested by
// crates/kernels/tests/histogram.rs::any_number_of_bins_is_counted
/// Values for each bin that a block has to count, for its own counts to pay.
const VALUES_A_BIN: u64 = 4;

impl Choice {
    /// Chooses.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] for values that are not integers, [`ErrorKind::TooLarge`] for
    /// more than 2^31 bins, or 2^31 values and more.
    pub fn new(problem: Problem, limits: &Limits) -> Result<Self, Error> {
        let Problem { dtype, len, bins } = problem;
        if !dtype.is_integer() {
            return Err(ErrorKind::Unsupported { op: "histogram".to_owned(), dtype }.into());
        }
        if bins > MAX_BINS {
            return Err(
                ErrorKind::TooLarge { what: "a histogram's number of bins", size: bins, limit: MAX_BINS }.into()
            );
        }
        if len > MAX_LEN {
            return Err(ErrorKind::TooLarge { what: "the values of a histogram", size: len, limit: MAX_LEN }.into());
        }
        let limit = bins.min(num_values(dtype)) as u32;
        if limit == 0 || len == 0 {
            return Ok(Self { problem, algorithm: Algorithm::Global, launch: None, limit });
        }
        let words = u64::from(limit) + 1;
        // Blocks that count little for each bin would spend their time on clearing and adding.
        let worthwhile = len / (VALUES_A_BIN * u64::from(limit));
        let counts_in_shared = |copies: u32, resident: u32| {
            let blocks = filled_blocks(&problem, LARGE_BLOCK).min(u64::from(resident * limits.num_sms));
            // One block counts few values, rather than many atomics in one place.
            let blocks = if blocks == 1 { 1 } else { blocks.min(worthwhile) };
            let launch = LaunchConfig::new(blocks as u32, LARGE_BLOCK).dynamic_shared(4 * words as u32 * copies);
            (blocks > 0).then_some(Self { problem, algorithm: Algorithm::Copies(copies), launch: Some(launch), limit })
        };
        let shared = if 4 * words <= SHARED_BYTES {
            let copies = (SHARED_BYTES / (4 * words)).min(useful_copies(dtype)) as u32;
            counts_in_shared(1 << copies.ilog2(), RESIDENT)
        } else if 4 * words <= u64::from(limits.shared_bytes_per_block_optin) {
            counts_in_shared(1, 1)
        } else {
            None
        };
        Ok(shared.unwrap_or_else(|| {
            let resident = limits.max_threads_per_sm / BLOCK;
            let blocks = filled_blocks(&problem, BLOCK).min(u64::from(resident * limits.num_sms));
            let launch = LaunchConfig::new(blocks as u32, BLOCK);
            Self { problem, algorithm: Algorithm::Global, launch: Some(launch), limit }
        }))
    }

    /// Bytes of the values that an SM has in flight at most.
    #[must_use]
    pub fn bytes_in_flight(&self, limits: &Limits) -> u64 {
        let Some(launch) = self.launch else { return 0 };
        let threads = launch.block[0];
        let by_shared = limits.shared_bytes_per_sm / (launch.dynamic_shared + 1024);
        let resident = by_shared.min(limits.max_threads_per_sm / threads);
        u64::from(resident * threads * vectors_under_way(threads)) * 16
    }
}

/// Blocks whose threads have all their vectors in flight at once.
fn filled_blocks(problem: &Problem, block: u32) -> u64 {
    let values = 16 / problem.dtype.bytes() * u64::from(block * vectors_under_way(block));
    problem.len.div_ceil(values)
}

/// Copies of a bin that pay. Sixteen values of one byte come with a load, so that conflicts cost
/// more than memory: of 1 GiB of random values in 256 bins an H200 (2026-11-20, driver 580) took
/// 2,750 GB/s with one copy and 3,955 with 32. Wider ones run at the speed of memory with one; four
/// keep values apart that are multiples of 32.
const fn useful_copies(dtype: Dtype) -> u64 {
    if dtype.bytes() == 1 { 32 } else { 4 }
}

/// How many different values a type has that are not negative, 2^31 at most.
const fn num_values(dtype: Dtype) -> u64 {
    match dtype {
        Dtype::U8 => 1 << 8,
        Dtype::I8 => 1 << 7,
        Dtype::U16 => 1 << 16,
        Dtype::I16 => 1 << 15,
        _ => MAX_BINS,
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Problem { dtype, len, bins } = self.problem;
        write!(f, "{len} {dtype} in {bins} bin(s): ")?;
        let Some(launch) = self.launch else { return f.write_str("nothing to count") };
        match self.algorithm {
            Algorithm::Copies(copies) => write!(f, "{copies} count(s) of each bin in shared memory")?,
            Algorithm::Global => f.write_str("counts in global memory")?,
        }
        write!(f, ", {} block(s) of {}", launch.grid[0], launch.block[0])
    }
}
