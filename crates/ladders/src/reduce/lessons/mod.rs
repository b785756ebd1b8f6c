//! The ladder `reduce-lessons`: five small kernels, each for one lesson: three over what one block
//! can hold, two over any length. `--factor` says how many times as many elements a thread of the
//! last one adds.

mod r01_simple;
mod r02_no_divergence;
mod r03_shared;
mod r04_segmented;
mod r05_coarsened;

pub use r01_simple::simple;
pub use r02_no_divergence::no_divergence;
pub use r03_shared::shared;
pub use r04_segmented::segmented;
pub use r05_coarsened::coarsened;

use warpfold_device::LaunchConfig;
use warpfold_kernels::{AnyKernel, Dtype};

use super::instance::open;
use crate::ladder::{
    Change, Claim, Finish, Ladder, Launch, MAX_SIZE_OF_U32, Metric, ONE_BLOCK_MOST, Rung, SizeOption, Sizes,
    elements_of,
};

/// Threads of the one block of the first three kernels, each for two elements.
pub const ONE_BLOCK: u32 = 1024;

/// Threads per block of the last two.
pub const BLOCK: u32 = 256;

/// Pairs of elements that a thread of the last kernel adds before any cooperation.
pub const FACTOR: SizeOption = SizeOption {
    name: "factor",
    default: 2,
    accepts: |factor| [2, 4, 8].contains(&factor),
    expected: "--factor 2, 4 or 8",
};

/// A size for each kernel of the last rung.
const FACTORS: &[u64] = &[FACTOR.with(2048, 2), FACTOR.with(2048, 4), FACTOR.with(2048, 8)];

/// The last rung's kernel for the factor in a size.
fn coarsened_for(dtype: Dtype, size: u64) -> AnyKernel {
    let factor = FACTOR.of(size) as u32;
    match dtype {
        Dtype::I32 => AnyKernel::from(coarsened::<i32>(BLOCK, factor)),
        Dtype::F32 => AnyKernel::from(coarsened::<f32>(BLOCK, factor)),
        _ => unreachable!("the ladder has no kernel for {dtype}"),
    }
}

/// A kernel for an element type.
macro_rules! typed {
    ($kernel:ident($($config:expr),*)) => {
        |dtype| match dtype {
            Dtype::I32 => AnyKernel::from($kernel::<i32>($($config),*)),
            Dtype::F32 => AnyKernel::from($kernel::<f32>($($config),*)),
            _ => unreachable!("the ladder has no kernel for {dtype}"),
        }
    };
}

/// The ladder.
pub const LESSONS: Ladder = Ladder {
    name: "reduce-lessons",
    problem: "the sum of a vector, at first of what one block can hold",
    sizes: Sizes::With(FACTOR),
    default_size: ONE_BLOCK_MOST as u64,
    max_size: MAX_SIZE_OF_U32,
    dtypes: &[Dtype::F32, Dtype::I32],
    rungs: RUNGS,
    open,
};

const RUNGS: &[Rung] = &[
    Rung {
        name: "simple",
        changed: "One block adds in place in global memory, its strides doubling",
        claims: &[],
        launches: &[Launch::new(typed!(simple(ONE_BLOCK)), |_| LaunchConfig::new(1, ONE_BLOCK))],
        finish: Finish::OneBlock,
    },
    Rung {
        name: "no_divergence",
        changed: "Strides halve, so that whole warps work or rest",
        claims: &[
            Claim::new(Metric::BranchEfficiency, Change::Rises),
            Claim::new(Metric::DivergentBranches, Change::Falls),
            Claim::new(Metric::WarpEfficiency, Change::Rises),
        ],
        launches: &[Launch::new(typed!(no_divergence(ONE_BLOCK)), |_| LaunchConfig::new(1, ONE_BLOCK))],
        finish: Finish::OneBlock,
    },
    Rung {
        name: "shared",
        changed: "The first addition goes into shared memory, and global memory is read once",
        claims: &[Claim::new(Metric::GlobalLoads, Change::Falls), Claim::new(Metric::GlobalStores, Change::Falls)],
        launches: &[Launch::new(typed!(shared(ONE_BLOCK)), |_| LaunchConfig::new(1, ONE_BLOCK))],
        finish: Finish::OneBlock,
    },
    Rung {
        name: "segmented",
        changed: "Many blocks take a segment each, and add their sums by an atomic",
        claims: &[Claim::new(Metric::Blocks, Change::Rises), Claim::new(Metric::Atomics, Change::FromZero)],
        launches: &[Launch::new(typed!(segmented(BLOCK)), |size| blocks_of(size, 2 * BLOCK))],
        finish: Finish::Atomic,
    },
    Rung {
        name: "coarsened",
        changed: "Each thread adds twice the factor's number of elements before any cooperation",
        claims: &[
            Claim::new(Metric::Blocks, Change::Falls),
            Claim::new(Metric::Barriers, Change::Falls),
            Claim::new(Metric::Atomics, Change::Falls),
            Claim::new(Metric::Instructions, Change::Falls),
        ],
        launches: &[Launch::sized(coarsened_for, FACTORS, |size| blocks_of(size, FACTOR.of(size) as u32 * 2 * BLOCK))],
        finish: Finish::Atomic,
    },
];

/// A launch whose blocks take so many elements each.
fn blocks_of(size: u64, elements: u32) -> LaunchConfig {
    LaunchConfig { block: [BLOCK, 1, 1], ..LaunchConfig::for_elements(elements_of(size).max(1), elements) }
}
