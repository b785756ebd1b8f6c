//! The ladder `rms-norm`: RMS norm, from two reads of a row to one.

mod r01_rms;
mod r02_rms_vec4;

pub use r01_rms::rms;
pub use r02_rms_vec4::rms_vec4;

use warpfold_kernels::Dtype;
use warpfold_lang::{Global, Kernel};

use super::instance::open_rms;
use super::ladder::{BLOCK, HELD_BY_THREAD, block_a_row};
use crate::ladder::{Change, Claim, Finish, Ladder, Launch, MAX_SIZE_OF_U32, Metric, Rung, Sizes};
use crate::row::typed;

/// Parameters of every rung: the rows, scale, output, `rstd`, number of rows, their length, eps.
pub type RmsNorm<T> = Kernel<(Global<T>, Global<T>, Global<T>, Global<f32>, u32, u32, f32)>;

/// The ladder.
pub const RMS: Ladder = Ladder {
    name: "rms-norm",
    problem: "the RMS norm of each row of 4,096",
    sizes: Sizes::Elements,
    default_size: 33_554_432,
    max_size: MAX_SIZE_OF_U32,
    dtypes: &[Dtype::F32, Dtype::F16, Dtype::Bf16],
    rungs: RUNGS,
    open: open_rms,
};

const RUNGS: &[Rung] = &[
    Rung {
        name: "rms",
        changed: "A block shares a row, and reads it twice: for the sum of squares, and for the results",
        claims: &[],
        launches: &[Launch::new(typed!(rms(BLOCK)), block_a_row)],
        finish: Finish::Nothing,
    },
    Rung {
        name: "rms_vec4",
        changed: "A block loads the row by 16 bytes per thread and keeps it in registers, so that it is read once",
        claims: &[
            Claim::new(Metric::LoadBytes, Change::Falls),
            Claim::new(Metric::LoadSectors, Change::Falls),
            Claim::new(Metric::GlobalLoads, Change::Falls),
            Claim::new(Metric::GlobalStores, Change::Falls),
            Claim::new(Metric::Instructions, Change::Falls),
        ],
        launches: &[Launch::new(typed!(rms_vec4(BLOCK, HELD_BY_THREAD)), block_a_row)],
        finish: Finish::Nothing,
    },
];
