//! Different elements: how many there are, and which, with counts and positions.
//!
//! Contract: rows of any element type, side by side; any number of any length. All NaN are one
//! element, and so are the zeros of both signs (NumPy's `unique`). Counts are exact; atomics meet
//! on integers only, so that they do not depend on the order of the elements.
//!
//! Each row has a hash table of at least twice as many words as it can have different elements, in
//! global memory: a word is 0 or the key of an element, and a last word stands for the key 0. A
//! plan clears the tables and leaves a word that is not 0 for each different element; a fold counts
//! those (`count-nonzero`). So a row of `n` elements takes 32 `n` bytes beside it at most, and no
//! more than 512 words for single bytes. Start with [`UniqueTables`].
//!
//! [`Runs`] says which they are: rows in an order that a [sort](crate::sort) gives have equal ones
//! side by side, whose runs are numbered by a scan.

mod kernel;
mod runs;

pub use runs::Runs;

use warpfold_device::LaunchConfig;

use kernel::TableArgs;

use crate::plan::{Family, OperandSpec, Plan, Planned, Planner, Step};
use crate::{Dtype, Error, ErrorKind, Shipped};

/// Threads per block.
const BLOCK: u32 = 256;
// THRESHOLD: blocks walk over what is left; tested by
// crates/kernels/tests/operations/walks.rs::elements_beyond_the_grid_are_looked_up_by_the_blocks_that_there_are
/// Blocks that keep a GPU busy.
const MAX_BLOCKS: u64 = 4096;

/// The family of hash tables of different elements. Its input are the rows, its output the tables
/// of [`Problem::words_per_row`] words for each row, in which a word is not 0 for each different
/// element.
#[derive(Debug, Clone, Copy, Default)]
pub struct UniqueTables;

/// Rows, and what they are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Problem {
    /// The type of the elements.
    pub dtype: Dtype,
    /// Rows.
    pub rows: u64,
    /// Elements of a row.
    pub row_len: u64,
}

impl Problem {
    /// Words of a table but the last one: a power of two.
    fn capacity(&self) -> Result<u64, Error> {
        // THRESHOLD: longer rows are refused; tested by
        // crates/kernels/tests/parts/plans.rs::tables_of_different_elements_beyond_all_addresses_are_refused
        const LIMIT: u64 = 1 << 58;
        let different = match self.dtype.bytes() {
            8 => self.row_len,
            bytes => self.row_len.min(1 << (8 * bytes)),
        };
        if different > LIMIT {
            return Err(ErrorKind::TooLarge { what: "a row", size: different, limit: LIMIT }.into());
        }
        Ok((2 * different).next_power_of_two().max(2))
    }

    /// Words of 64 bits of the table of each row.
    ///
    /// # Errors
    /// [`ErrorKind::TooLarge`] if a row's table has more bytes than there are addresses.
    pub fn words_per_row(&self) -> Result<u64, Error> {
        Ok(self.capacity()? + 1)
    }
}

impl Family for UniqueTables {
    type Problem = Problem;

    fn plan(&self, problem: &Problem, planner: &Planner<'_>) -> Result<Plan, Error> {
        let Problem { dtype, rows, row_len } = *problem;
        let capacity = problem.capacity()?;
        let bytes_of = |what, count: u64, bytes: u64| {
            let limit = u64::MAX / bytes;
            let size = rows.checked_mul(count).filter(|size| *size <= limit);
            size.map(|size| size * bytes).ok_or(ErrorKind::TooLarge { what, size: rows, limit: limit / count.max(1) })
        };
        let table_bytes = bytes_of("tables of different elements", capacity + 1, 8)?;
        let row_bytes = bytes_of("rows", row_len, dtype.bytes())?;
        let mut plan = Plan::new("unique-count").choice(format_args!("{rows} tables of {} words", capacity + 1));
        let input = plan.add_input(OperandSpec::new("the rows", row_bytes, dtype.bytes()));
        let tables = plan.add_output(OperandSpec::new("the tables", table_bytes, 8));
        let plan = plan.fill(tables, table_bytes, 0);
        let blocks = (rows * row_len).div_ceil(BLOCK.into()).min(MAX_BLOCKS) as u32;
        if blocks == 0 {
            return Ok(plan);
        }
        let args = TableArgs::<Planned> { rows: input, tables, len: rows * row_len, row_len, capacity };
        let kernel = planner.kernel(UniqueConfig(dtype), |UniqueConfig(dtype)| kernel::kernel_of(*dtype));
        Ok(plan.step(Step::new(kernel, LaunchConfig::new(blocks, BLOCK)).with(args)?))
    }
}

/// What the kernel is built for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct UniqueConfig(Dtype);

/// Kernels as they ship, to be assembled and compared.
pub(crate) fn kernels() -> Vec<Shipped> {
    let tables = [Dtype::Bf16, Dtype::I64, Dtype::F64].map(kernel::kernel_of);
    Shipped::each(tables.into_iter().chain(runs::kernels()))
}
