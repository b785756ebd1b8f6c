//! The ladder `softmax`: rows from one thread each to one read of each.

mod r01_three_pass;
mod r02_safe;
mod r03_online;
mod r04_warp;
mod r05_block;
mod r06_cluster;

pub use r01_three_pass::three_pass;
pub use r02_safe::safe;
pub use r03_online::online;
pub use r04_warp::warp;
pub use r05_block::block;
pub use r06_cluster::cluster;

use warpfold_device::LaunchConfig;
use warpfold_kernels::Dtype;
use warpfold_lang::{Global, Kernel};

use super::instance::open_rows;
use crate::ladder::{Change, Claim, Finish, Ladder, Launch, MAX_SIZE_OF_U32, Metric, Rows, Rung, Sizes, elements_of};
use crate::row::typed;

/// Parameters of every rung: the rows, their softmax, number of rows, their length.
pub type RowSoftmax<T> = Kernel<(Global<T>, Global<T>, u32, u32)>;

/// Threads per block.
pub const BLOCK: u32 = 256;

/// Elements that a lane of `warp` holds: rows of up to 1,024 are read once.
pub const HELD_BY_LANE: u32 = 32;

/// Elements that a thread of `block` holds: rows of up to 4,096 are read once.
pub const HELD_BY_THREAD: u32 = 16;

/// Blocks of `cluster` that share a row: rows of up to 8,192 are read once.
pub const BLOCKS_A_ROW: u32 = 2;

/// Elements of a row, where the size allows it: four times what a warp holds.
pub const ROW_LEN: usize = 4096;

/// A launch whose blocks take so many rows each.
fn rows_a_block(size: u64, rows: u32) -> LaunchConfig {
    let blocks = Rows::of(elements_of(size), ROW_LEN).num_rows.div_ceil(rows as usize).max(1);
    LaunchConfig::new(blocks as u32, BLOCK)
}

/// A launch whose clusters take a row each.
fn clusters(size: u64) -> LaunchConfig {
    let rows = Rows::of(elements_of(size), ROW_LEN).num_rows.max(1) as u32;
    LaunchConfig::new(rows * BLOCKS_A_ROW, BLOCK)
}

/// The ladder.
pub const LADDER: Ladder = Ladder {
    name: "softmax",
    problem: "the softmax of each row of 4,096",
    sizes: Sizes::Elements,
    default_size: 33_554_432,
    max_size: MAX_SIZE_OF_U32,
    dtypes: &[Dtype::F32, Dtype::F16, Dtype::Bf16],
    rungs: RUNGS,
    open: open_rows,
};

const RUNGS: &[Rung] = &[
    Rung {
        name: "three_pass",
        changed: "One thread reads its row three times: for the largest element, for the sum, for the results",
        claims: &[],
        launches: &[Launch::new(typed!(three_pass()), |size| rows_a_block(size, BLOCK))],
        finish: Finish::Nothing,
    },
    Rung {
        name: "safe",
        changed: "A block shares a row, and folds the largest element before the sum",
        claims: &[
            Claim::new(Metric::LoadSectors, Change::Falls),
            Claim::new(Metric::StoreSectors, Change::Falls),
            Claim::new(Metric::Blocks, Change::Rises),
            Claim::new(Metric::Barriers, Change::FromZero),
        ],
        launches: &[Launch::new(typed!(safe(BLOCK)), |size| rows_a_block(size, 1))],
        finish: Finish::Nothing,
    },
    Rung {
        name: "online",
        changed: "Threads find the largest element and the sum in one pass, and the block folds both at once",
        claims: &[
            Claim::new(Metric::LoadBytes, Change::Falls),
            Claim::new(Metric::LoadSectors, Change::Falls),
            Claim::new(Metric::Barriers, Change::DividedBy(2)),
        ],
        launches: &[Launch::new(typed!(online(BLOCK)), |size| rows_a_block(size, 1))],
        finish: Finish::Nothing,
    },
    Rung {
        name: "warp",
        changed: "A warp takes a row by loads of 16 bytes, and keeps in registers what fits",
        claims: &[
            Claim::new(Metric::LoadBytes, Change::Falls),
            Claim::new(Metric::GlobalLoads, Change::Falls),
            Claim::new(Metric::GlobalStores, Change::Falls),
            Claim::new(Metric::Barriers, Change::ToZero),
            Claim::new(Metric::SharedAccesses, Change::ToZero),
        ],
        launches: &[Launch::new(typed!(warp(BLOCK, HELD_BY_LANE)), |size| rows_a_block(size, BLOCK / 32))],
        finish: Finish::Nothing,
    },
    Rung {
        name: "block",
        changed: "A block keeps the whole row in registers, so that it is read once",
        claims: &[
            Claim::new(Metric::LoadBytes, Change::Falls),
            Claim::new(Metric::LoadSectors, Change::Falls),
            Claim::new(Metric::Barriers, Change::FromZero),
        ],
        launches: &[Launch::new(typed!(block(BLOCK, HELD_BY_THREAD)), |size| rows_a_block(size, 1))],
        finish: Finish::Nothing,
    },
    Rung {
        name: "cluster",
        changed: "The blocks of a cluster share a row, and fold through one another's shared memory",
        claims: &[Claim::new(Metric::Blocks, Change::Rises)],
        launches: &[Launch::new(typed!(cluster(BLOCK, BLOCKS_A_ROW, HELD_BY_THREAD)), clusters)],
        finish: Finish::Nothing,
    },
];
