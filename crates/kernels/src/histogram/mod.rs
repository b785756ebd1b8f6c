//! How often each of the values `0..bins` occurs: `counts[b] = #{i : x[i] = b}`.
//!
//! Contract: values of any integer type, from any multiple of their size on; any number of them and of bins, 0 included,
//! up to 2^31 bins. Values outside the bins, negative ones among them, are not counted. Counts are `i32`, exact, and
//! wrap beyond 2^31 equal values.
//!
//! Start with [`Plan::new`] and [`launch()`]. Few bins are counted in shared memory, in several copies of each that fits,
//! up to one for each lane (the last rung of the ladder); as many as take all of a multiprocessor's shared memory in one
//! copy; more, or more than a block's values would fill, by atomics on global memory.

mod global;
mod instance;
mod launch;
mod plan;
mod reference;
mod values;
mod walk;

pub mod ladder;

pub use global::global;
pub use ladder::LADDER;
pub use launch::launch;
pub use plan::{Code, Plan, Problem};
pub use reference::histogram;
pub use values::Value;

use walk::for_each_value;

use crate::{AnyKernel, Shipped};

/// Kernels for each width of a value, for the list of all kernels.
pub(crate) fn kernels() -> Vec<Shipped> {
    use ladder::{BLOCK, LARGE_BLOCK};
    let kernels: Vec<(AnyKernel, u32)> = vec![
        (ladder::copies::<u8>(LARGE_BLOCK, 32).into(), LARGE_BLOCK),
        (ladder::copies::<u16>(LARGE_BLOCK, 4).into(), LARGE_BLOCK),
        (ladder::copies::<u64>(LARGE_BLOCK, 1).into(), LARGE_BLOCK),
        (global::<u8>(BLOCK).into(), BLOCK),
        (global::<u64>(BLOCK).into(), BLOCK),
    ];
    let shipped = |(kernel, block)| Shipped { kernel, block, in_flight: Some(walk::bytes_under_way(block)) };
    kernels.into_iter().map(shipped).collect()
}
