//! The ladder `scale`: short rows, from two reads by a block to one read by a warp.

mod r01_block;
mod r02_warp;

pub use r01_block::block;
pub use r02_warp::warp;

use warpfold_device::LaunchConfig;
use warpfold_kernels::Dtype;
use warpfold_lang::{Global, Kernel};

use super::instance::open;
use crate::ladder::{Change, Claim, Finish, Ladder, Launch, MAX_SIZE_OF_U32, Metric, Rows, Rung, Sizes, elements_of};
use crate::row::typed;

/// Parameters of every rung: the rows, the scaled rows, their divisors, number of rows, their
/// length.
pub type RowScale<T> = Kernel<(Global<T>, Global<T>, Global<f32>, u32, u32)>;

/// Threads per block.
pub const BLOCK: u32 = 128;

/// Elements of a row, where the size allows it: what a warp loads of `f32` at once.
pub const ROW_LEN: usize = 128;

/// A launch whose blocks take so many rows each.
fn rows_a_block(size: u64, rows: u32) -> LaunchConfig {
    let blocks = Rows::of(elements_of(size), ROW_LEN).num_rows.div_ceil(rows as usize).max(1);
    LaunchConfig::new(blocks as u32, BLOCK)
}

/// The ladder.
pub const LADDER: Ladder = Ladder {
    name: "scale",
    problem: "each row of 128, divided by its largest magnitude",
    sizes: Sizes::Elements,
    default_size: 55_296 * 8 * 128,
    max_size: MAX_SIZE_OF_U32,
    dtypes: &[Dtype::F32, Dtype::F16, Dtype::Bf16],
    rungs: RUNGS,
    open,
};

const RUNGS: &[Rung] = &[
    Rung {
        name: "block",
        changed: "A block shares a row, and reads it twice: for its largest magnitude, and to divide",
        claims: &[],
        launches: &[Launch::new(typed!(block(BLOCK)), |size| rows_a_block(size, 1))],
        finish: Finish::Nothing,
    },
    Rung {
        name: "warp",
        changed: "A warp takes a row by one load of 16 bytes per lane, and keeps it in registers",
        claims: &[
            Claim::new(Metric::LoadBytes, Change::DividedBy(2)),
            Claim::new(Metric::LoadSectors, Change::DividedBy(2)),
            Claim::new(Metric::GlobalLoads, Change::Falls),
            Claim::new(Metric::GlobalStores, Change::Falls),
            Claim::new(Metric::Blocks, Change::DividedBy(BLOCK / 32)),
            Claim::new(Metric::Barriers, Change::ToZero),
            Claim::new(Metric::Instructions, Change::Falls),
        ],
        launches: &[Launch::new(typed!(warp(BLOCK)), |size| rows_a_block(size, BLOCK / 32))],
        finish: Finish::Nothing,
    },
];
