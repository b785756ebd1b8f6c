//! The ladder `gemv`: from a thread per row to lanes, rows and accesses that a plan chooses by the
//! width of the matrix.
//!
//! Every rung takes any number of rows and columns. The numbers in their names are the widths that
//! they were first written for: multiples of 32, of 128, and 16; `--columns` sets the width. Rows begin at multiples of 16
//! bytes for the rungs that load so many.

mod r01_one_thread_a_row;
mod r02_sgemv_k32;
mod r03_sgemv_k128;
mod r04_sgemv_k16;
mod r05_planned;

pub use r01_one_thread_a_row::one_thread_a_row;
pub use r02_sgemv_k32::sgemv_k32;
pub use r03_sgemv_k128::sgemv_k128;
pub use r04_sgemv_k16::sgemv_k16;
pub use r05_planned::planned;

use warpfold_device::LaunchConfig;
use warpfold_kernels::gemv::Shape;
use warpfold_kernels::{AnyKernel, Dtype};
use warpfold_lang::{Global, Kernel};

use super::instance::open;
use crate::ladder::{self, Change, Claim, Finish, Ladder, Launch, MAX_SIZE_OF_U32, Metric, Rung, SizeOption, Sizes};

/// Threads of a block.
pub(crate) const BLOCK: u32 = 256;

/// Parameters of every rung: matrix, vector, result, rows, columns, the row stride in elements.
pub type Rows<T> = Kernel<(Global<T>, Global<T>, Global<T>, u64, u32, i64)>;

/// Columns of the ladder's matrices; unless asked for, those or a few more.
pub const COLUMNS: SizeOption = SizeOption {
    name: "columns",
    default: 1024,
    accepts: |columns| (1..1 << 20).contains(&columns),
    expected: "--columns from 1 to 1048575",
};

/// Returns the plan's choice for many rows: as many lanes as a row has 16-byte accesses.
#[must_use]
pub fn planned_for(size: u64) -> Shape {
    let accesses = ladder::Rows::with(size, &COLUMNS).row_len.div_ceil(4).max(1);
    Shape { lanes: accesses.next_power_of_two().min(32) as u32, rows: 2, unroll: 1, width: 4 }
}

/// A launch whose blocks take so many rows each.
fn blocks_of(size: u64, rows: u32) -> LaunchConfig {
    let num_rows = ladder::Rows::with(size, &COLUMNS).num_rows.max(1);
    LaunchConfig { block: [BLOCK, 1, 1], ..LaunchConfig::for_elements(num_rows, rows) }
}

fn planned_kernel(dtype: Dtype, size: u64) -> AnyKernel {
    assert_eq!(dtype, Dtype::F32, "the ladder has no other kernels");
    AnyKernel::from(planned::<f32>(planned_for(size)))
}

/// The size unless said.
const DEFAULT_SIZE: u64 = 33_554_432;

/// A kernel for the element type.
macro_rules! typed {
    ($kernel:ident($($argument:expr)?)) => {
        |dtype| match dtype {
            Dtype::F32 => AnyKernel::from($kernel::<f32>($($argument)?)),
            _ => unreachable!("the ladder has no kernel for {dtype}"),
        }
    };
}

/// The ladder.
pub const LADDER: Ladder = Ladder {
    name: "gemv",
    problem: "the product of a matrix with a vector",
    sizes: Sizes::With(COLUMNS),
    default_size: DEFAULT_SIZE,
    max_size: MAX_SIZE_OF_U32,
    dtypes: &[Dtype::F32],
    rungs: RUNGS,
    open,
};

const RUNGS: &[Rung] = &[
    Rung {
        name: "one_thread_a_row",
        changed: "A thread walks over its row and the vector",
        claims: &[],
        launches: &[Launch::new(typed!(one_thread_a_row()), |size| blocks_of(size, BLOCK))],
        finish: Finish::Nothing,
    },
    Rung {
        name: "sgemv_k32",
        changed: "A warp takes a row, its lanes neighbouring columns, and folds by shuffles",
        claims: &[Claim::new(Metric::LoadSectors, Change::Falls), Claim::new(Metric::Blocks, Change::Rises)],
        launches: &[Launch::new(typed!(sgemv_k32()), |size| blocks_of(size, BLOCK / 32))],
        finish: Finish::Nothing,
    },
    Rung {
        name: "sgemv_k128",
        changed: "Each lane loads 16 bytes at once",
        claims: &[
            Claim::new(Metric::GlobalLoads, Change::DividedBy(4)),
            Claim::new(Metric::Instructions, Change::Falls),
        ],
        launches: &[Launch::new(typed!(sgemv_k128()), |size| blocks_of(size, BLOCK / 32))],
        finish: Finish::Nothing,
    },
    Rung {
        name: "sgemv_k16",
        changed: "Half a warp takes a row, and both halves read the same part of the vector",
        claims: &[
            Claim::new(Metric::Blocks, Change::DividedBy(2)),
            Claim::new(Metric::LoadSectors, Change::Falls),
            Claim::new(Metric::Instructions, Change::Falls),
        ],
        launches: &[Launch::new(typed!(sgemv_k16()), |size| blocks_of(size, BLOCK / 16))],
        finish: Finish::Nothing,
    },
    Rung {
        name: "planned",
        changed: "The plan's lanes take two rows side by side, which share each load of the vector",
        claims: &[
            Claim::new(Metric::GlobalLoads, Change::Falls),
            Claim::new(Metric::LoadBytes, Change::Falls),
            Claim::new(Metric::Instructions, Change::Falls),
        ],
        // Of the plan's shapes the ladder lists that of its own width; the library has the others.
        launches: &[Launch::sized(planned_kernel, &[DEFAULT_SIZE], |size| {
            blocks_of(size, planned_for(size).rows_of_block())
        })],
        finish: Finish::Nothing,
    },
];
