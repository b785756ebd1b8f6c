//! Rows of a table by index: `output[i] = table[indices[i]]`, one launch, by accesses as wide as rows and addresses allow.
//!
//! Indices are of any integer type; negative ones count from the end of the table. A kernel cannot fail, so an index that
//! names no row gives a row of zero bytes, and the launch keeps the lowest such position: see [`launch`]. Rows are bytes,
//! so tables of every element type share their kernels.

mod kernel;

pub(crate) use kernel::BLOCK;

use warpfold_device::{Arguments, LaunchConfig, Stream, View, ViewMut};

pub use kernel::Config;

use crate::kept::Kept;
use crate::{AnyKernel, Dtype, Error, ErrorKind};

/// Blocks that fill a GPU several times over: with fewer, long rows are shared.
const ENOUGH_BLOCKS: u64 = 1024;

/// What [`launch`] expects in the word for bad positions, and leaves there if every index names a row.
pub const NO_BAD_POSITION: u64 = u64::MAX;

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
    /// From one row of the table to the next, in bytes; rows of the output lie side by side.
    pub row_stride: i64,
}

/// How rows are gathered. A value: it can be printed and compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The kernel.
    pub config: Config,
    /// The launch; `None` if there are no indices.
    pub launch: Option<LaunchConfig>,
    problem: Problem,
    /// Accesses a row that a block takes.
    part: u64,
}

/// Plans a gathering from a table that begins at one address to an output that begins at another.
///
/// # Errors
/// [`ErrorKind::Unsupported`] if the indices are no integers; [`ErrorKind::TooLarge`].
pub fn plan(problem: &Problem, table: u64, output: u64) -> Result<Plan, Error> {
    const LIMIT: u64 = i32::MAX as u64;
    if !problem.indices.is_integer() {
        return Err(ErrorKind::Unsupported { op: "gather".to_owned(), dtype: problem.indices }.into());
    }
    let together = table | output | problem.row_bytes | problem.row_stride.unsigned_abs();
    let access = 1 << together.trailing_zeros().min(4);
    let accesses = problem.row_bytes / access;
    let lanes = accesses.div_ceil(kernel::UNROLL.into()).next_power_of_two().min(kernel::BLOCK.into()) as u32;
    let config = Config { indices: problem.indices, access: access as u32, lanes };
    let blocks = problem.count.div_ceil(u64::from(kernel::BLOCK / lanes));
    if blocks > LIMIT {
        return Err(ErrorKind::TooLarge { what: "the grid", size: blocks, limit: LIMIT }.into());
    }
    let tile = u64::from(lanes * kernel::UNROLL);
    let wanted = (ENOUGH_BLOCKS / blocks.max(1)).clamp(1, accesses.div_ceil(tile).max(1));
    let part = accesses.div_ceil(tile).div_ceil(wanted).max(1) * tile;
    // Indices are looked at even where rows have no bytes.
    let grid = (blocks as u32, accesses.div_ceil(part).max(1) as u32);
    let launch = (problem.count > 0).then(|| LaunchConfig::new(grid, kernel::BLOCK));
    Ok(Plan { config, launch, problem: *problem, part })
}

/// The kernel of a plan.
#[must_use]
pub fn kernel(plan: &Plan) -> AnyKernel {
    kernel::kernel_of(&plan.config)
}

/// Kernels as they ship, to be assembled and compared.
pub(crate) fn kernels() -> Vec<AnyKernel> {
    let configs = [(Dtype::I64, 16, 256), (Dtype::I32, 2, 8)];
    configs.map(|(indices, access, lanes)| kernel::kernel_of(&Config { indices, access, lanes })).to_vec()
}

/// Enqueues the gathering: one launch, or none if there are no indices.
///
/// `bad_position` is one word that holds [`NO_BAD_POSITION`] before the launch. Behind it the word holds the lowest
/// position in `indices` whose index names no row, or what it held if that is lower: several launches may share a word,
/// and whoever wants the error reads it once they are done.
///
/// # Errors
/// What the device says.
pub fn launch(
    stream: &Stream,
    plan: &Plan,
    indices: View<'_, u8>,
    table: View<'_, u8>,
    output: ViewMut<'_, u8>,
    bad_position: ViewMut<'_, u64>,
) -> Result<(), Error> {
    static KERNELS: Kept<Config> = Kept::new();
    let Some(config) = plan.launch else { return Ok(()) };
    let function = KERNELS.prepare(stream.device(), plan.config, kernel::kernel_of)?;
    let Problem { count, rows, row_bytes, row_stride, .. } = plan.problem;
    let arguments = Arguments::new().input(indices).input(table).output(output).output(bad_position);
    let arguments = arguments.value(count).value(rows).value(row_stride);
    let arguments = arguments.value(row_bytes / u64::from(plan.config.access)).value(plan.part);
    Ok(stream.launch_raw(&function, config, &arguments)?)
}
