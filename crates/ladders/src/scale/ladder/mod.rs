//! The ladder `scale`: short rows, from two reads by a block to one read by a warp.

mod r01_block;
mod r02_warp;

pub use r01_block::block;
pub use r02_warp::warp;

use warpfold_device::LaunchConfig;
use warpfold_kernels::{AnyKernel, Dtype};
use warpfold_lang::{Global, Kernel};

use super::instance::open;
use crate::ladder::{Change, Claim, Finish, Ladder, Launch, MAX_SIZE_OF_U32, Metric, Rows, Rung, SizeOption, Sizes};
use crate::row::{RowElement, typed};

/// Parameters of every rung: the rows, the scaled rows, their divisors, number of rows, their
/// length.
pub type RowScale<T> = Kernel<(Global<T>, Global<T>, Global<f32>, u32, u32)>;

/// Threads per block.
pub const BLOCK: u32 = 128;

/// Elements of a row, where the size allows it: what a warp loads of `f32` at once.
pub const ROW_LEN: usize = 128;

/// The elements of a row.
pub const COLUMNS: SizeOption = SizeOption {
    name: "columns",
    default: ROW_LEN,
    accepts: |columns| (1..1 << 20).contains(&columns),
    expected: "--columns from 1 to 1048575",
};

/// Accesses of 16 bytes at most that a lane keeps of its row.
const MOST_PACKS: usize = 8;

/// The accesses of 16 bytes that a lane keeps of a row as long as was asked for.
fn packs<T: RowElement>(size: usize) -> u32 {
    let of_row = |columns: usize| columns.div_ceil(32 * T::WIDTH as usize).min(MOST_PACKS);
    COLUMNS.given(size).map_or(1, of_row) as u32
}

/// The kernel whose lanes keep as much.
fn warp_for(dtype: Dtype, size: usize) -> AnyKernel {
    fn of<T: RowElement>(size: usize) -> AnyKernel {
        AnyKernel::from(warp::<T>(BLOCK, packs::<T>(size)))
    }
    match dtype {
        Dtype::F32 => of::<f32>(size),
        Dtype::F16 => of::<half::f16>(size),
        Dtype::Bf16 => of::<half::bf16>(size),
        _ => unreachable!("the ladder has no kernel for {dtype}"),
    }
}

/// The size unless said.
const DEFAULT_SIZE: usize = 55_296 * 8 * 128;

/// A launch whose blocks take so many rows each.
fn rows_a_block(size: usize, rows: u32) -> LaunchConfig {
    let blocks = Rows::with(size, &COLUMNS).num_rows.div_ceil(rows as usize).max(1);
    LaunchConfig::new(blocks as u32, BLOCK)
}

/// The ladder.
pub const LADDER: Ladder = Ladder {
    name: "scale",
    problem: "each row of 128 (--columns), divided by its largest magnitude",
    sizes: Sizes::With(COLUMNS),
    default_size: DEFAULT_SIZE,
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
        changed: "A warp takes a row by loads of 16 bytes per lane, and keeps it in registers",
        claims: &[
            Claim::new(Metric::LoadBytes, Change::DividedBy(2)),
            Claim::new(Metric::LoadSectors, Change::DividedBy(2)),
            Claim::new(Metric::GlobalLoads, Change::Falls),
            Claim::new(Metric::GlobalStores, Change::Falls),
            Claim::new(Metric::Blocks, Change::DividedBy(BLOCK / 32)),
            Claim::new(Metric::Barriers, Change::ToZero),
            Claim::new(Metric::Instructions, Change::Falls),
        ],
        launches: &[Launch::sized(warp_for, &[DEFAULT_SIZE], |size| rows_a_block(size, BLOCK / 32))],
        finish: Finish::Nothing,
    },
];
