//! The ladder `reduce-lessons`: five small kernels, each for one lesson, over what one block can
//! hold.

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
use crate::ladder::{Change, Claim, Finish, Ladder, Launch, Metric, Rung, Sizes};

/// Threads of the one block of the first three kernels, each for two elements.
pub const ONE_BLOCK: u32 = 1024;

/// Threads a block of the last two.
pub const BLOCK: u32 = 256;

/// Pairs of elements that a thread of the last kernel adds before any cooperation.
pub const COARSENING: u32 = 2;

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
    problem: "the sum of what one block can hold",
    sizes: Sizes::Elements,
    default_size: 2 * ONE_BLOCK as usize,
    max_size: 2 * ONE_BLOCK as usize,
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
        changed: "Each thread adds four elements before any cooperation",
        claims: &[
            Claim::new(Metric::Blocks, Change::DividedBy(COARSENING)),
            Claim::new(Metric::Barriers, Change::DividedBy(COARSENING)),
            Claim::new(Metric::Atomics, Change::DividedBy(COARSENING)),
            Claim::new(Metric::Instructions, Change::Falls),
        ],
        launches: &[Launch::new(typed!(coarsened(BLOCK, COARSENING)), |size| blocks_of(size, COARSENING * 2 * BLOCK))],
        finish: Finish::Atomic,
    },
];

/// A launch whose blocks take so many elements each.
fn blocks_of(size: usize, elements: u32) -> LaunchConfig {
    LaunchConfig { block: [BLOCK, 1, 1], ..LaunchConfig::for_elements(size.max(1), elements) }
}
