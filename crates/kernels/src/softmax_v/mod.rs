//! Softmax of scores times values: `O = softmax(S) V`, the weights never written to memory.
//!
//! Shapes: scores `[batch, rows, len]`, values `[batch, len, width]`, results `[batch, rows, width]`, all side by side in
//! C order. Element types f16, bf16, f32, f64, the same for all three, and eight-bit floats, whose results are f32; computed
//! in f32 at least, in a fixed order. A block takes [`ROWS`] rows: each warp folds the softmax statistics of one of them,
//! then all threads walk over the values once, with the weights of a run of positions in shared memory; threads are
//! columns of the values, several runs side by side where there are fewer columns than threads. Scores are read twice,
//! values once a block.

mod kernel;

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use warpfold_device::{Arguments, LaunchConfig, Stream, View, ViewMut};

use crate::{AnyKernel, Dtype, Error, ErrorKind};

/// Rows a block: one a warp.
pub const ROWS: u32 = 8;

/// Sizes of the product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Problem {
    /// Element type of scores and values.
    pub dtype: Dtype,
    /// Products side by side.
    pub batch: usize,
    /// Rows of scores.
    pub rows: usize,
    /// Positions that a row weighs.
    pub len: usize,
    /// Columns of the values.
    pub width: usize,
}

impl Problem {
    /// Element type of the results.
    #[must_use]
    pub const fn output(&self) -> Dtype {
        match self.dtype {
            Dtype::F8E4M3 | Dtype::F8E5M2 => Dtype::F32,
            dtype => dtype,
        }
    }
}

/// Enqueues `O = softmax(S) V`: one launch.
///
/// # Errors
/// [`ErrorKind::Unsupported`] for another element type, [`ErrorKind::TooLarge`], and what the device says.
pub fn softmax_v(
    stream: &Stream,
    problem: &Problem,
    scores: View<'_, u8>,
    values: View<'_, u8>,
    results: ViewMut<'_, u8>,
) -> Result<(), Error> {
    let Problem { dtype, batch, rows, len, width } = *problem;
    if !dtype.is_float() {
        return Err(ErrorKind::Unsupported { op: "softmax-v".to_owned(), dtype }.into());
    }
    const LIMIT: u64 = i32::MAX as u64;
    let blocks = batch as u64 * (rows as u64).div_ceil(ROWS.into());
    for (what, size) in [("the grid", blocks), ("a row", len as u64), ("the width", width as u64)] {
        if size > LIMIT {
            return Err(ErrorKind::TooLarge { what, size, limit: LIMIT }.into());
        }
    }
    if batch * rows * width == 0 {
        return Ok(());
    }
    let function = kernel_of(dtype, columns_side_by_side(width)).prepare(stream.device())?;
    let arguments = Arguments::new().input(scores).input(values).output(results);
    let arguments = arguments.value(rows as u32).value(len as u32).value(width as u32);
    Ok(stream.launch_raw(&function, LaunchConfig::new(blocks as u32, 32 * ROWS), &arguments)?)
}

/// Columns that the threads of a block take at once: the others take other positions of the same columns.
fn columns_side_by_side(width: usize) -> u32 {
    (width as u64).next_power_of_two().clamp(32, u64::from(32 * ROWS)) as u32
}

/// The kernel, made once a process.
#[must_use]
pub fn kernel_of(dtype: Dtype, columns: u32) -> AnyKernel {
    static MADE: LazyLock<Mutex<HashMap<(Dtype, u32), AnyKernel>>> = LazyLock::new(Mutex::default);
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    made.entry((dtype, columns)).or_insert_with(|| make(dtype, columns)).clone()
}

fn make(dtype: Dtype, columns: u32) -> AnyKernel {
    match dtype {
        Dtype::F64 => kernel::softmax_v::<f64>(dtype, dtype, columns),
        Dtype::F8E4M3 | Dtype::F8E5M2 => kernel::softmax_v::<f32>(dtype, Dtype::F32, columns),
        _ => kernel::softmax_v::<f32>(dtype, dtype, columns),
    }
}
