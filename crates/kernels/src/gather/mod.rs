//! Rows of a table by index: `output[i] = table[indices[i]]`, one launch, by accesses as wide as
//! rows and addresses allow.
//!
//! Indices are of any integer type; negative ones count from the end of the table. A kernel cannot
//! fail, so an index that names no row gives a row of zero bytes, and the launch keeps the lowest
//! such position: see [`Gather`]. Rows are bytes, so tables of every element type share their
//! kernels.

mod kernel;

use warpfold_device::LaunchConfig;

use kernel::{GatherArgs, GatherConfig};

use crate::plan::{Family, OperandSpec, Plan, Planned, Planner, Step, grid_size};
use crate::{Dtype, Error, ErrorKind, Shipped};

// THRESHOLD: fewer blocks share long rows, by no more than these in y; tested by
// crates/kernels/tests/parts/plans.rs::long_rows_are_gathered_by_no_more_blocks_than_fill_a_gpu
/// Blocks that fill a GPU several times over: with fewer, long rows are shared.
const ENOUGH_BLOCKS: u64 = 1024;

/// The family of gathers. Inputs are indices and table, outputs the rows and one word of 64 bits
/// for bad positions.
///
/// The word holds [`Gather::NO_BAD_POSITION`] before the launch. After it, it holds the lowest
/// position in the indices that names no row, or what it held if that is lower: several launches
/// may share a word, and the host reads it once they are done.
#[derive(Debug, Clone, Copy, Default)]
pub struct Gather;

impl Gather {
    /// What the word for bad positions holds before a launch, and after it if every index names a
    /// row.
    pub const NO_BAD_POSITION: u64 = u64::MAX;
}

/// What is gathered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Problem {
    /// The type of the indices, an integer.
    pub indices: Dtype,
    /// Indices, side by side.
    pub count: u64,
    /// Rows of the table.
    pub rows: u64,
    /// Bytes of a row, side by side.
    pub row_bytes: u64,
    /// From one row of the table to the next, in bytes; rows of the output lie side by side. With a
    /// negative stride the table's address is that of its first row.
    pub row_stride: i64,
    /// A power of two that the addresses of table and output are multiples of, in bytes.
    pub alignment: u64,
}

/// How rows are gathered. A value: it can be printed and compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// The kernel.
    pub config: GatherConfig,
    /// The launch; `None` if there are no indices.
    pub launch: Option<LaunchConfig>,
    /// Accesses of a row that a block takes.
    part: u64,
}

impl Problem {
    /// Chooses access width, threads per row and grid.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the indices are no integers; [`ErrorKind::TooLarge`].
    pub fn choose(&self) -> Result<Choice, Error> {
        if !self.indices.is_integer() {
            return Err(ErrorKind::Unsupported { op: "gather".to_owned(), dtype: self.indices }.into());
        }
        let together = self.alignment | self.row_bytes | self.row_stride.unsigned_abs();
        let access = 1 << together.trailing_zeros().min(4);
        let accesses = self.row_bytes / access;
        let lanes = accesses.div_ceil(kernel::UNROLL.into()).next_power_of_two().min(kernel::BLOCK.into()) as u32;
        let config = GatherConfig { indices: self.indices, access: access as u32, lanes };
        let blocks = grid_size(self.count.div_ceil(u64::from(kernel::BLOCK / lanes)))?;
        let tile = u64::from(lanes * kernel::UNROLL);
        let wanted = (ENOUGH_BLOCKS / u64::from(blocks.max(1))).clamp(1, accesses.div_ceil(tile).max(1));
        let part = accesses.div_ceil(tile).div_ceil(wanted).max(1) * tile;
        // Indices are looked at even where rows have no bytes.
        let grid = (blocks, accesses.div_ceil(part).max(1) as u32);
        let launch = (self.count > 0).then(|| LaunchConfig::new(grid, kernel::BLOCK));
        Ok(Choice { config, launch, part })
    }
}

impl Family for Gather {
    type Problem = Problem;

    fn plan(&self, problem: &Problem, planner: &Planner<'_>) -> Result<Plan, Error> {
        let choice = problem.choose()?;
        let Problem { indices, count, rows, row_bytes, row_stride, alignment } = *problem;
        // Rows below the address of the first one are before the view, where nothing counts bytes.
        let table_bytes = if row_stride < 0 { row_bytes } else { (rows.max(1) - 1) * row_stride as u64 + row_bytes };
        let mut plan = Plan::new("gather").choice(format_args!("{:?}", choice.config));
        let (index_bytes, table_bytes) = (indices.bytes(), if rows == 0 { 0 } else { table_bytes });
        let args = GatherArgs::<Planned> {
            indices: plan.add_input(OperandSpec::new("indices", count * index_bytes, index_bytes)),
            table: plan.add_input(OperandSpec::new("the table", table_bytes, alignment)),
            output: plan.add_output(OperandSpec::new("the output", count * row_bytes, alignment)),
            bad_position: plan.add_output(OperandSpec::new("the bad position", 8, 8)),
            count,
            rows,
            row_stride,
            accesses: row_bytes / u64::from(choice.config.access),
            part: choice.part,
        };
        let Some(launch) = choice.launch else { return Ok(plan) };
        Ok(plan.step(Step::new(planner.kernel(choice.config, kernel::kernel_of), launch).with(args)?))
    }
}

/// Kernels as they ship, to be assembled and compared.
pub(crate) fn kernels() -> Vec<Shipped> {
    let configs = [(Dtype::I64, 16, 256), (Dtype::I32, 2, 8)];
    Shipped::each(configs.map(|(indices, access, lanes)| kernel::kernel_of(&GatherConfig { indices, access, lanes })))
}
