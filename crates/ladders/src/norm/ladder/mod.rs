//! The ladder `norm`: layer norm, from three reads of a row to one.

mod r01_two_pass;
mod r02_welford;
mod r03_vec4;

pub use r01_two_pass::two_pass;
pub use r02_welford::welford;
pub use r03_vec4::vec4;

use warpfold_device::LaunchConfig;
use warpfold_kernels::Dtype;
use warpfold_lang::{Global, Kernel};

use super::instance::open_layer;
use crate::ladder::{Change, Claim, Finish, Ladder, Launch, MAX_SIZE_OF_U32, Metric, Rows, Rung, Sizes, elements_of};
use crate::row::typed;

/// Parameters of every rung: the rows, scale, bias, output, mean, `rstd`, number of rows, their
/// length, eps.
pub type LayerNorm<T> = Kernel<(Global<T>, Global<T>, Global<T>, Global<T>, Global<f32>, Global<f32>, u32, u32, f32)>;

/// Threads per block.
pub const BLOCK: u32 = 256;

/// Elements that a thread of `vec4` holds: rows of up to 4,096 are read once.
pub const HELD_BY_THREAD: u32 = 16;

/// Elements of a row, where the size allows it.
pub const ROW_LEN: usize = 4096;

/// A launch of a block per row.
pub(super) fn block_a_row(size: u64) -> LaunchConfig {
    LaunchConfig::new(Rows::of(elements_of(size), ROW_LEN).num_rows.max(1) as u32, BLOCK)
}

/// The ladder.
pub const LADDER: Ladder = Ladder {
    name: "norm",
    problem: "the layer norm of each row of 4,096",
    sizes: Sizes::Elements,
    default_size: 33_554_432,
    max_size: MAX_SIZE_OF_U32,
    dtypes: &[Dtype::F32, Dtype::F16, Dtype::Bf16],
    rungs: RUNGS,
    open: open_layer,
};

const RUNGS: &[Rung] = &[
    Rung {
        name: "two_pass",
        changed: "A block shares a row, and reads it three times: for the mean, for the variance, for the results",
        claims: &[],
        launches: &[Launch::new(typed!(two_pass(BLOCK)), block_a_row)],
        finish: Finish::Nothing,
    },
    Rung {
        name: "welford",
        changed: "Threads find mean and variance in one pass, and the block folds both at once",
        claims: &[
            Claim::new(Metric::LoadBytes, Change::Falls),
            Claim::new(Metric::LoadSectors, Change::Falls),
            Claim::new(Metric::Barriers, Change::DividedBy(2)),
        ],
        launches: &[Launch::new(typed!(welford(BLOCK)), block_a_row)],
        finish: Finish::Nothing,
    },
    Rung {
        name: "vec4",
        changed: "A block loads the row by 16 bytes per thread and keeps it in registers, so that it is read once",
        claims: &[
            Claim::new(Metric::LoadBytes, Change::Falls),
            Claim::new(Metric::LoadSectors, Change::Falls),
            Claim::new(Metric::GlobalLoads, Change::Falls),
            Claim::new(Metric::GlobalStores, Change::Falls),
            Claim::new(Metric::Instructions, Change::Falls),
        ],
        launches: &[Launch::new(typed!(vec4(BLOCK, HELD_BY_THREAD)), block_a_row)],
        finish: Finish::Nothing,
    },
];
