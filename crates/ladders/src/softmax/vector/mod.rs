//! The ladder `softmax-vector`: one softmax over everything, which all blocks share.
//!
//! The first rung is a race: it takes a fence for a barrier of the grid, and the checks refute it.
//! Then a first launch leaves the largest element and the sum of exponentials of each block; every
//! block of the second one folds those, in the order of the blocks, and writes its share of the
//! results. The last rung does both in one cooperative launch, with the grid's barrier in between.

mod r01_threadfence;
mod r02_grid;
mod r03_grid_vec4;
mod r04_grid_sync;

pub use r01_threadfence::{Threadfence, threadfence};
pub use r02_grid::{grid, grid_partials};
pub use r03_grid_vec4::{grid_vec4, grid_vec4_partials};
pub use r04_grid_sync::{GridSoftmax, grid_sync};

use warpfold_device::LaunchConfig;
use warpfold_kernels::Dtype;
use warpfold_kernels::fold::{Monoid, OnlineSoftmax};
use warpfold_lang::{Global, Kernel, Val, Vars, grid_dim, vars};

use super::instance::open_vector;
use crate::ladder::{Change, Claim, Finish, Ladder, Launch, MAX_SIZE_OF_U32, Metric, Rung, Sizes, elements_of};
use crate::row::{Team, typed};

/// Parameters of the first launch: the vector, the largest element of each block, the sum of each
/// block, the length.
pub type Partials<T> = Kernel<(Global<T>, Global<f32>, Global<f32>, u32)>;

/// Parameters of the second launch: the vector, the largest elements, the sums, how many of them
/// there are, the output, the length.
pub type VectorSoftmax<T> = Kernel<(Global<T>, Global<f32>, Global<f32>, u32, Global<T>, u32)>;

/// Threads per block.
pub const BLOCK: u32 = 256;

/// Blocks at most, so that each block of the second launch folds no more than this. As many as the
/// reduction has.
pub const MAX_BLOCKS: u32 = 1024;

/// A launch of at most [`MAX_BLOCKS`] blocks, whose threads take four elements at least.
fn blocks(size: u64) -> LaunchConfig {
    let blocks = elements_of(size).div_ceil(4 * BLOCK as usize).clamp(1, MAX_BLOCKS as usize);
    LaunchConfig::new(blocks as u32, BLOCK)
}

/// Blocks at most of a cooperative launch: an A100 keeps 864 of them resident, an H200 1,056.
const MAX_RESIDENT_BLOCKS: u32 = 512;

/// A cooperative launch of at most [`MAX_RESIDENT_BLOCKS`] blocks.
fn resident_blocks(size: u64) -> LaunchConfig {
    let config = blocks(size);
    LaunchConfig { grid: [config.grid[0].min(MAX_RESIDENT_BLOCKS), 1, 1], ..config }.cooperative()
}

/// Combines the maxima and sums of all blocks.
fn fold_partials(team: Team, largest: Global<f32>, sums: Global<f32>, num_partials: Val<u32>) -> (Val<f32>, Val<f32>) {
    let seen: Vars<_> = vars(OnlineSoftmax.identity());
    team.each(num_partials, |i| {
        seen.set(OnlineSoftmax.combine(seen.get(), (largest.at(i).get(), sums.at(i).get())));
    });
    team.fold(OnlineSoftmax, seen.get())
}

/// Threads of the grid.
fn grid_threads(block: u32) -> Val<u32> {
    grid_dim().x * block
}

/// The ladder.
pub const VECTOR: Ladder = Ladder {
    name: "softmax-vector",
    problem: "the softmax of a vector",
    sizes: Sizes::Elements,
    default_size: 33_554_432,
    max_size: MAX_SIZE_OF_U32,
    dtypes: &[Dtype::F32, Dtype::F16, Dtype::Bf16],
    rungs: RUNGS,
    open: open_vector,
};

const RUNGS: &[Rung] = &[
    Rung {
        name: "threadfence",
        changed: "One launch: blocks add to one sum, and a fence stands where all would have to wait: a race",
        claims: &[],
        launches: &[Launch::new(typed!(threadfence(BLOCK)), blocks)],
        finish: Finish::Race,
    },
    Rung {
        name: "grid",
        changed: "Blocks leave their largest elements and sums; a second launch folds them and writes",
        claims: &[Claim::new(Metric::Atomics, Change::ToZero)],
        launches: &[Launch::new(typed!(grid_partials(BLOCK)), blocks), Launch::new(typed!(grid(BLOCK)), blocks)],
        finish: Finish::Nothing,
    },
    Rung {
        name: "grid_vec4",
        changed: "Each thread moves 16 bytes at once",
        claims: &[
            Claim::new(Metric::GlobalLoads, Change::Falls),
            Claim::new(Metric::GlobalStores, Change::Falls),
            Claim::new(Metric::Instructions, Change::Falls),
        ],
        launches: &[
            Launch::new(typed!(grid_vec4_partials(BLOCK)), blocks),
            Launch::new(typed!(grid_vec4(BLOCK)), blocks),
        ],
        finish: Finish::Nothing,
    },
    Rung {
        name: "grid_sync",
        changed: "One cooperative launch, whose blocks wait for one another at the grid's barrier",
        claims: &[Claim::new(Metric::Steps, Change::DividedBy(2)), Claim::new(Metric::Atomics, Change::FromZero)],
        launches: &[Launch::new(typed!(grid_sync(BLOCK)), resident_blocks)],
        finish: Finish::Nothing,
    },
];
