//! The ladder `histogram`: from one atomic a value on global memory to a bank of shared memory for
//! each lane.
//!
//! The result of every rung is cleared before, which is a step of its own. Counts are whole
//! numbers, so that the order of atomics does not show.

mod r01_plain;
mod r02_vec4;
mod r03_shared;
mod r04_copies;

pub use r01_plain::plain;
pub use r02_vec4::vec4;
pub use r03_shared::shared;
pub use r04_copies::copies;

use warpfold_device::LaunchConfig;
use warpfold_kernels::{AnyKernel, Dtype};
use warpfold_lang::{Global, Kernel};

use super::instance::open;
use crate::ladder::{Change, Claim, Finish, Ladder, Launch, MAX_SIZE_OF_U32, Metric, Rung, Sizes, elements_of};

/// Threads of a block that counts in global memory.
pub const BLOCK: u32 = 256;

/// Threads of a block that counts in shared memory: all of them share what clearing and adding
/// costs.
pub const LARGE_BLOCK: u32 = 1024;

/// Parameters of every rung: values, counts, number of values, and the first value that is not
/// counted.
pub type Counting<T> = Kernel<(Global<T>, Global<u32>, u64, u32)>;

/// Bins of the ladder's problem.
pub const BINS: u32 = 256;

/// Copies of each of them in the last rung.
pub const COPIES: u32 = 32;

/// Blocks at most of the rungs that count in shared memory: two per multiprocessor of an H200.
pub const MAX_BLOCKS: u32 = 264;

fn blocks_of(size: u64, values: u32) -> LaunchConfig {
    LaunchConfig { block: [BLOCK, 1, 1], ..LaunchConfig::for_elements(elements_of(size).max(1), values) }
}

/// At most [`MAX_BLOCKS`] blocks, each with so many counts of a bin.
fn fixed_blocks(size: u64, copies: u32) -> LaunchConfig {
    let num_blocks = elements_of(size).div_ceil(4 * LARGE_BLOCK as usize).clamp(1, MAX_BLOCKS as usize);
    LaunchConfig::new(num_blocks as u32, LARGE_BLOCK).dynamic_shared(4 * copies * (BINS + 1))
}

/// A kernel for the element type; signed values are counted by the unsigned type's.
macro_rules! typed {
    ($kernel:ident($($argument:expr),*)) => {
        |dtype| match dtype {
            Dtype::I32 => AnyKernel::from($kernel::<u32>($($argument),*)),
            _ => unreachable!("the ladder has no kernel for {dtype}"),
        }
    };
}

/// The ladder.
pub const LADDER: Ladder = Ladder {
    name: "histogram",
    problem: "how often each of 256 values occurs",
    sizes: Sizes::Elements,
    default_size: 33_554_432,
    max_size: MAX_SIZE_OF_U32,
    dtypes: &[Dtype::I32],
    rungs: RUNGS,
    open,
};

const RUNGS: &[Rung] = &[
    Rung {
        name: "plain",
        changed: "Each thread adds one to the count of its value",
        claims: &[],
        launches: &[Launch::new(typed!(plain(BLOCK)), |size| blocks_of(size, BLOCK))],
        finish: Finish::Atomic,
    },
    Rung {
        name: "vec4",
        changed: "Each thread loads 16 bytes at once",
        claims: &[
            Claim::new(Metric::GlobalLoads, Change::DividedBy(4)),
            Claim::new(Metric::Blocks, Change::DividedBy(4)),
            Claim::new(Metric::Instructions, Change::Falls),
        ],
        launches: &[Launch::new(typed!(vec4(BLOCK)), |size| blocks_of(size, 4 * BLOCK))],
        finish: Finish::Atomic,
    },
    Rung {
        name: "shared",
        changed: "Each block counts in shared memory, and adds its counts at the end",
        claims: &[
            Claim::new(Metric::Atomics, Change::Falls),
            Claim::new(Metric::DivergentBranches, Change::Falls),
            Claim::new(Metric::SharedAtomics, Change::FromZero),
            Claim::new(Metric::AtomicConflicts, Change::FromZero),
        ],
        launches: &[Launch::new(typed!(shared(LARGE_BLOCK)), |size| fixed_blocks(size, 1))],
        finish: Finish::Atomic,
    },
    Rung {
        name: "copies",
        changed: "Each lane counts in a copy of its own, and in a bank of its own",
        claims: &[Claim::new(Metric::AtomicConflicts, Change::ToZero)],
        launches: &[Launch::new(typed!(copies(LARGE_BLOCK, COPIES)), |size| fixed_blocks(size, COPIES))],
        finish: Finish::Atomic,
    },
];
