//! How often each of the values `0..bins` occurs: `counts[b] = #{i : x[i] = b}`.
//!
//! Contract: values of any integer type, aligned to their size; any number of them and of bins, 0
//! included, up to 2^31 bins. Values outside the bins, negative ones among them, are not counted.
//! Counts are `i32`, exact, and wrap beyond 2^31 equal values.
//!
//! Start with [`Histogram`] and [`Choice::new`]. Few bins are counted in shared memory, in as many
//! copies of each as fit, up to one for each lane; bins that take all of an SM's shared memory in
//! one copy; more, or more than a block's values would fill, by atomics on global memory.

mod choice;
mod copies;
mod family;
mod global;
mod reference;
mod values;
mod walk;

pub use choice::{Algorithm, Choice, Problem};
pub use copies::copies;
pub use family::Histogram;
use global::global;
pub use values::Value;
pub use walk::for_each_value;

use warpfold_lang::{Global, Kernel};

use crate::{AnyKernel, Shipped};

/// What every kernel takes: values, counts, how many values, and the first value that is not
/// counted.
pub(crate) type Counting<T> = Kernel<(Global<T>, Global<u32>, u64, u32)>;

/// Threads per block of the kernel that counts in global memory.
pub(crate) const BLOCK: u32 = 256;

/// Threads per block of the kernel that counts in shared memory: all of them share what clearing
/// and adding costs. Of 1 GiB of random `u8` in 256 bins, 32 copies each, an H200 (2026-11-20,
/// driver 580) took 3,337 GB/s with 256 threads, 3,955 with 1,024; of `i32` 3,582 and 4,184.
pub(crate) const LARGE_BLOCK: u32 = 1024;

/// Kernels for each width of a value, for the list of all kernels.
pub(crate) fn kernels() -> Vec<Shipped> {
    let kernels: Vec<(AnyKernel, u32)> = vec![
        (copies::<u8>(LARGE_BLOCK, 32).into(), LARGE_BLOCK),
        (copies::<u16>(LARGE_BLOCK, 4).into(), LARGE_BLOCK),
        (copies::<u64>(LARGE_BLOCK, 1).into(), LARGE_BLOCK),
        (global::<u8>(BLOCK).into(), BLOCK),
        (global::<u64>(BLOCK).into(), BLOCK),
    ];
    let shipped = |(kernel, block)| Shipped { kernel, in_flight: Some(walk::bytes_under_way(block)) };
    kernels.into_iter().map(shipped).collect()
}
