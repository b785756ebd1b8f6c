//! How many different elements each of some rows has.
//!
//! Contract: rows of any element type, side by side; any number of any length. All NaN are one element, and so are the
//! zeros of both signs (NumPy's `unique`). Counts are exact; atomics meet on integers only, so that they do not depend on
//! the order of the elements.
//!
//! Each row has a hash table of at least twice as many words as it can have different elements, in global memory: a
//! word is 0 or the key of an element, and a last word stands for the key 0. [`launch`] clears the tables and leaves a word that
//! is not 0 for each different element; a fold counts those (`count-nonzero`). So a row of `n` elements takes 32 `n` bytes
//! beside it at most, and no more than 512 words for single bytes. Start with [`Plan::new`].

mod kernel;

use warpfold_device::{Arguments, LaunchConfig, Stream, View, ViewMut};

use crate::kept::Kept;
use crate::{AnyKernel, Dtype, Error, ErrorKind};

/// Threads a block.
pub(crate) const BLOCK: u32 = 256;
/// Blocks that keep a GPU busy.
const MAX_BLOCKS: u64 = 4096;

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

/// The tables of a problem. A value: it can be printed and compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    problem: Problem,
    /// Words of a table but the last one: a power of two.
    capacity: u64,
}

impl Plan {
    /// Sizes the tables.
    ///
    /// # Errors
    /// [`ErrorKind::TooLarge`] if a row's table has more bytes than there are addresses.
    pub fn new(problem: Problem) -> Result<Self, Error> {
        const LIMIT: u64 = 1 << 58;
        let different = match problem.dtype.bytes() {
            8 => problem.row_len,
            bytes => problem.row_len.min(1 << (8 * bytes)),
        };
        if different > LIMIT {
            return Err(ErrorKind::TooLarge { what: "a row", size: different, limit: LIMIT }.into());
        }
        Ok(Self { problem, capacity: (2 * different).next_power_of_two().max(2) })
    }

    /// Words of 64 bits that each row's table has.
    #[must_use]
    pub const fn words_a_row(&self) -> u64 {
        self.capacity + 1
    }
}

/// Kernels as they ship, to be assembled and compared.
pub(crate) fn kernels() -> Vec<AnyKernel> {
    [Dtype::Bf16, Dtype::I64, Dtype::F64].map(kernel::kernel_of).to_vec()
}

/// Leaves a word that is not 0 in its table for each different element of each row: clears `tables`, then one launch.
///
/// # Errors
/// [`ErrorKind::Operand`] if a buffer is too short; what the device says.
pub fn launch(stream: &Stream, plan: &Plan, rows: View<'_, u8>, mut tables: ViewMut<'_, u8>) -> Result<(), Error> {
    static KERNELS: Kept<Dtype> = Kept::new();
    let Problem { dtype, rows: num_rows, row_len } = plan.problem;
    let needed = [
        ("rows", num_rows.checked_mul(row_len).and_then(|len| len.checked_mul(dtype.bytes())), rows.num_bytes()),
        ("tables", num_rows.checked_mul(8 * plan.words_a_row()), tables.num_bytes()),
    ];
    if let Some((name, ..)) = needed.iter().find(|(_, needed, found)| needed.is_none_or(|n| n > *found as u64)) {
        let reason = format!("the {name} are too short for {plan:?}");
        return Err(ErrorKind::Operand { operator: "unique-count", reason }.into());
    }
    stream.fill_bytes(tables.reborrow(), 0)?;
    let blocks = (num_rows * row_len).div_ceil(BLOCK.into()).min(MAX_BLOCKS) as u32;
    if blocks == 0 {
        return Ok(());
    }
    let function = KERNELS.prepare(stream.device(), dtype, |dtype| kernel::kernel_of(*dtype))?;
    let arguments = Arguments::new().input(rows).output(tables);
    let arguments = arguments.value(num_rows * row_len).value(row_len).value(plan.capacity);
    Ok(stream.launch_raw(&function, LaunchConfig::new(blocks, BLOCK), &arguments)?)
}
