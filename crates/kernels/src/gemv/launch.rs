//! Launches a plan on buffers of the device.

use warpfold_device::{Arguments, Stream, View, ViewMut};

use super::columns::{Tile, columns, finish};
use super::element::for_dtype;
use super::plan::refused;
use super::rows::rows;
use super::split::split;
use super::{Code, Element, Plan, Problem, Product, Shape};
use crate::kept::Kept;
use crate::{AnyKernel, Dtype, Error, Workspace};

/// The memory of a product, as bytes.
#[derive(Debug)]
pub struct Operands<'a> {
    /// From the matrix's first element on; with a negative row stride from the first element of its last row on.
    pub matrix: View<'a, u8>,
    /// The vector, without gaps.
    pub vector: View<'a, u8>,
    /// The result, without gaps.
    pub result: ViewMut<'a, u8>,
}

impl Operands<'_> {
    /// The largest power of two up to 16 that the addresses of matrix and vector are multiples of.
    #[must_use]
    pub fn alignment(matrix: &View<'_, u8>, vector: &View<'_, u8>) -> u64 {
        let addresses = matrix.address() | vector.address() | 16;
        1 << addresses.trailing_zeros()
    }
}

/// A kernel of this folder, for the table of those that are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Configuration {
    Rows(Dtype, Shape),
    Split(Dtype, u32, Target),
    Columns(Dtype, Tile, Target),
    Finish(Dtype, u32),
}

/// What a kernel writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Target {
    Results,
    Sums,
}

static KERNELS: Kept<Configuration> = Kept::new();

fn make(configuration: &Configuration) -> AnyKernel {
    match *configuration {
        Configuration::Rows(dtype, shape) => for_dtype!(dtype, rows(shape)),
        Configuration::Split(dtype, width, Target::Results) => for_dtype!(dtype, split_to_results(width)),
        Configuration::Split(dtype, width, Target::Sums) => for_dtype!(dtype, split_to_sums(width)),
        Configuration::Columns(dtype, tile, Target::Results) => for_dtype!(dtype, columns_to_results(tile)),
        Configuration::Columns(dtype, tile, Target::Sums) => for_dtype!(dtype, columns_to_sums(tile)),
        Configuration::Finish(dtype, lanes) => for_dtype!(dtype, finish(lanes)),
    }
}

fn split_to_results<T: Element>(width: u32) -> super::Split<T, T> {
    split(width)
}

fn split_to_sums<T: Element>(width: u32) -> super::Split<T, T::Acc> {
    split(width)
}

fn columns_to_results<T: Element>(tile: Tile) -> super::Columns<T, T> {
    columns(tile)
}

fn columns_to_sums<T: Element>(tile: Tile) -> super::Columns<T, T::Acc> {
    columns(tile)
}

/// Computes the product that a plan was made for.
///
/// # Errors
/// [`ErrorKind::Operand`](crate::ErrorKind::Operand) if a buffer is too short or not aligned as the plan has it; what
/// the device says.
pub fn launch(stream: &Stream, plan: &Plan, operands: Operands<'_>, workspace: &mut Workspace) -> Result<(), Error> {
    check(plan, &operands)?;
    let Some(config) = plan.launch else { return Ok(()) };
    let Operands { matrix, vector, mut result } = operands;
    let (mut sums, _) = workspace.get(stream.device(), plan.workspace_words(), 0)?;
    let Problem { dtype, rows, columns, row_stride, .. } = plan.problem;
    let before_first = rows.saturating_sub(1) * row_stride.min(0).unsigned_abs() * dtype.bytes();
    let matrix = matrix.slice(before_first as usize..)?;
    let arguments = Arguments::new().input(matrix).input(vector);
    let (target, arguments) = match plan.finish() {
        Some(_) => (Target::Sums, arguments.output(sums.reborrow())),
        None => (Target::Results, arguments.output(result.reborrow())),
    };
    let (configuration, arguments) = match plan.code {
        Code::Rows(shape) => {
            let arguments = arguments.value(rows).value(columns as u32).value(row_stride);
            (Configuration::Rows(dtype, shape), arguments)
        }
        Code::Split(width) => {
            let arguments = arguments.value(columns).value(plan.part as u32).value(row_stride);
            (Configuration::Split(dtype, width, target), arguments)
        }
        Code::Columns(tile) => {
            let arguments = arguments.value(rows).value(columns).value(plan.part).value(row_stride);
            (Configuration::Columns(dtype, tile, target), arguments)
        }
    };
    let device = stream.device();
    stream.launch_raw(&KERNELS.prepare(device, configuration, make)?, config, &arguments)?;
    if let Some(config) = plan.finish() {
        let arguments = Arguments::new().input(sums.as_view()).output(result);
        let arguments = arguments.value(u64::from(plan.num_parts)).value(plan.num_results());
        let configuration = Configuration::Finish(dtype, plan.finish_lanes());
        stream.launch_raw(&KERNELS.prepare(device, configuration, make)?, config, &arguments)?;
    }
    Ok(())
}

fn check(plan: &Plan, operands: &Operands<'_>) -> Result<(), Error> {
    let Operands { matrix, vector, result } = operands;
    let Problem { product, dtype, rows, columns, row_stride, alignment } = plan.problem;
    if Operands::alignment(matrix, vector) < alignment.min(16) {
        return Err(refused(format!("the plan is for matrix and vector at multiples of {alignment} bytes")));
    }
    let in_matrix = if rows == 0 || columns == 0 {
        Some(0)
    } else {
        (rows - 1).checked_mul(row_stride.unsigned_abs()).and_then(|before_last| before_last.checked_add(columns))
    };
    let (in_vector, in_result) = match product {
        Product::MatrixVector => (columns, rows),
        Product::VectorMatrix => (rows, columns),
    };
    let bytes = |elements: u64| elements.checked_mul(dtype.bytes());
    let needs = [
        ("matrix", in_matrix.and_then(bytes), matrix.num_bytes()),
        ("vector", bytes(in_vector), vector.num_bytes()),
        ("result", bytes(in_result), result.num_bytes()),
    ];
    for (name, needed, found) in needs {
        if needed.is_none_or(|needed| needed > found as u64) {
            let needed = needed.map_or_else(|| "more than 2^64".to_owned(), |needed| needed.to_string());
            return Err(refused(format!("the {name} has {found} bytes, {needed} are needed")));
        }
    }
    Ok(())
}
