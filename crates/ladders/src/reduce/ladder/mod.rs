//! The ladder `reduce`: from the tree as one draws it to one launch that reads memory at its full
//! speed.
//!
//! How the blocks' sums become one is part of each rung: the first six leave one per block, which
//! the host adds; the next three add them by one atomic per block; the last one adds them in the
//! last block, in a fixed order.

mod r01_naive;
mod r02_interleaved;
mod r03_sequential;
mod r04_first_add;
mod r05_unroll_last_warp;
mod r06_unroll_all;
mod r07_shuffle;
mod r08_vec4;
mod r09_grid_stride;
mod r10_single_pass;

pub use r01_naive::naive;
pub use r02_interleaved::interleaved;
pub use r03_sequential::sequential;
pub use r04_first_add::first_add;
pub use r05_unroll_last_warp::unroll_last_warp;
pub use r06_unroll_all::unroll_all;
pub use r07_shuffle::shuffle;
pub use r08_vec4::vec4;
pub use r09_grid_stride::grid_stride;
pub use r10_single_pass::{SinglePass, single_pass};

use warpfold_device::LaunchConfig;
use warpfold_kernels::{AnyKernel, Dtype};
use warpfold_lang::{Global, Kernel, Val};

use super::instance::open;
use crate::LadderElement;
use crate::ladder::{
    Change, Claim, Finish, Ladder, Launch, MAX_SIZE_OF_U32, Metric, Rung, SizeOption, Sizes, elements_of,
};

/// Parameters of all rungs but the last: the input, the sums, the length.
pub type PartialSums<T> = Kernel<(Global<T>, Global<T>, u32)>;

/// Threads per block unless said.
pub const BLOCK: u32 = 256;

/// The threads of a block.
pub const THREADS: SizeOption = SizeOption {
    name: "block",
    default: BLOCK as usize,
    accepts: |threads| threads.is_power_of_two() && (32..=1024).contains(&threads),
    expected: "--block 32, 64, 128, 256, 512 or 1024",
};

/// Blocks at most of the rungs whose threads walk over the input: about as many as an H200 keeps
/// resident, and fixed, so that the order of additions depends on the length alone. Of 33,554,432
/// f32 on an H200 (2026-11-20, driver 580) `single_pass` took 45.5 us with 528 blocks, 39.0 us with
/// 1,024, 40.8 us with 2,048, 42.3 us with 4,096.
pub const MAX_BLOCKS: u32 = 1024;

/// The contract of every rung: a block of a power of two of threads, of one warp at least.
///
/// # Panics
/// While the kernel is built, if the block is not such a one: kernels are asked for by this crate's
/// plans alone.
#[track_caller]
fn check_block(block: u32) {
    let is_fine = block.is_power_of_two() && (32..=1024).contains(&block);
    assert!(is_fine, "a block of the reduction has a power of two of threads from 32 to 1,024, not {block}");
}

/// The elements that lie in whole groups of four.
fn whole_len(len: Val<u32>) -> Val<u32> {
    len & !3
}

/// The up to three elements behind the whole groups: one for each of the grid's first threads, zero
/// for the others.
fn rest<T: LadderElement>(input: Global<T>, thread_in_grid: Val<u32>, len: Val<u32>) -> Val<T> {
    let i = whole_len(len) + thread_in_grid;
    input.at(i).get_or(T::ZERO, i.lt(len))
}

/// A launch whose threads take so many elements each.
fn blocks_of(size: usize, elements: u32) -> LaunchConfig {
    let block = THREADS.of(size) as u32;
    LaunchConfig { block: [block, 1, 1], ..LaunchConfig::for_elements(elements_of(size).max(1), elements * block) }
}

/// A launch of at most [`MAX_BLOCKS`] blocks.
fn fixed_blocks(size: usize) -> LaunchConfig {
    let config = blocks_of(size, 4);
    LaunchConfig { grid: [config.grid[0].min(MAX_BLOCKS), 1, 1], ..config }
}

/// A kernel for an element type and a block; lists have that of the ladder's own block.
macro_rules! of_block {
    ($kernel:ident, $config:expr) => {
        &[Launch::sized(
            |dtype, size| match dtype {
                Dtype::I32 => AnyKernel::from($kernel::<i32>(THREADS.of(size) as u32)),
                Dtype::F32 => AnyKernel::from($kernel::<f32>(THREADS.of(size) as u32)),
                _ => unreachable!("the ladder has no kernel for {dtype}"),
            },
            &[DEFAULT_SIZE],
            $config,
        )]
    };
}

/// The size unless said.
const DEFAULT_SIZE: usize = 33_554_432;

/// The ladder.
pub const LADDER: Ladder = Ladder {
    name: "reduce",
    problem: "the sum of a vector",
    sizes: Sizes::With(THREADS),
    default_size: DEFAULT_SIZE,
    max_size: MAX_SIZE_OF_U32,
    dtypes: &[Dtype::I32, Dtype::F32],
    rungs: RUNGS,
    open,
};

const RUNGS: &[Rung] = &[
    Rung {
        name: "naive",
        changed: "A tree in shared memory with its strides doubling; the host adds the blocks' sums",
        claims: &[],
        launches: of_block!(naive, |size| blocks_of(size, 1)),
        finish: Finish::Host,
    },
    Rung {
        name: "interleaved",
        changed: "The threads at work stand side by side and divide nothing; but they meet in the banks",
        claims: &[
            Claim::new(Metric::WarpEfficiency, Change::Rises),
            Claim::new(Metric::DivergentBranches, Change::Falls),
            Claim::new(Metric::Instructions, Change::Falls),
            Claim::new(Metric::StoreConflicts, Change::FromZero),
        ],
        launches: of_block!(interleaved, |size| blocks_of(size, 1)),
        finish: Finish::Host,
    },
    Rung {
        name: "sequential",
        changed: "Strides halve, so that neighbouring threads touch neighbouring words",
        claims: &[Claim::new(Metric::StoreConflicts, Change::ToZero)],
        launches: of_block!(sequential, |size| blocks_of(size, 1)),
        finish: Finish::Host,
    },
    Rung {
        name: "first_add",
        changed: "Each thread loads two elements and adds them, so that no half of the threads only loads",
        claims: &[
            Claim::new(Metric::Blocks, Change::DividedBy(2)),
            Claim::new(Metric::Barriers, Change::DividedBy(2)),
            Claim::new(Metric::Instructions, Change::Falls),
        ],
        launches: of_block!(first_add, |size| blocks_of(size, 2)),
        finish: Finish::Host,
    },
    Rung {
        name: "unroll_last_warp",
        changed: "The last warp goes on alone, behind warp barriers instead of the block's",
        claims: &[Claim::new(Metric::Barriers, Change::DividedBy(3)), Claim::new(Metric::Instructions, Change::Falls)],
        launches: of_block!(unroll_last_warp, |size| blocks_of(size, 2)),
        finish: Finish::Host,
    },
    Rung {
        name: "unroll_all",
        changed: "Every step is written out for the block size, and no loop is left",
        claims: &[Claim::new(Metric::Instructions, Change::Falls)],
        launches: of_block!(unroll_all, |size| blocks_of(size, 2)),
        finish: Finish::Host,
    },
    Rung {
        name: "shuffle",
        changed: "Lanes read one another's registers, a warp leaves one shared word, a block adds by one atomic",
        claims: &[
            Claim::new(Metric::SharedAccesses, Change::Falls),
            Claim::new(Metric::Barriers, Change::DividedBy(3)),
            Claim::new(Metric::Atomics, Change::FromZero),
        ],
        launches: of_block!(shuffle, |size| blocks_of(size, 2)),
        finish: Finish::Atomic,
    },
    Rung {
        name: "vec4",
        changed: "Each thread loads 16 bytes at once",
        claims: &[
            Claim::new(Metric::GlobalLoads, Change::DividedBy(4)),
            Claim::new(Metric::Blocks, Change::DividedBy(2)),
            Claim::new(Metric::Instructions, Change::Falls),
        ],
        launches: of_block!(vec4, |size| blocks_of(size, 4)),
        finish: Finish::Atomic,
    },
    Rung {
        name: "grid_stride",
        changed: "At most 1,024 blocks walk over the input, and each thread adds many elements before any cooperation",
        claims: &[
            Claim::new(Metric::Barriers, Change::Falls),
            Claim::new(Metric::Atomics, Change::Falls),
            Claim::new(Metric::Instructions, Change::Falls),
        ],
        launches: of_block!(grid_stride, fixed_blocks),
        finish: Finish::Atomic,
    },
    Rung {
        name: "single_pass",
        changed: "The last block adds the sums of all in a fixed order, so that one launch does everything",
        claims: &[Claim::new(Metric::Steps, Change::DividedBy(2))],
        launches: of_block!(single_pass, fixed_blocks),
        finish: Finish::LastBlock,
    },
];
