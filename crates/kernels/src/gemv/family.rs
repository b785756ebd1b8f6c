//! From a choice to launches: one that reads the matrix, and one that adds the sums of parts.

use super::choice::{Algorithm, Choice, Problem};
use super::columns::{Tile, columns, finish};
use super::element::for_dtype;
use super::rows::rows;
use super::split::split;
use super::{Columns, Element, Shape, Split};
use crate::plan::{Arg, Family, Operand, Plan, Planner, Step};
use crate::{AnyKernel, Dtype, Error};

/// The family of products of a matrix and a vector.
///
/// Inputs are matrix and vector, the output is the result; vector and result are without gaps. The
/// matrix lies from its first element in memory on, which with a negative row stride is that of its
/// last row.
#[derive(Debug, Clone, Copy, Default)]
pub struct Gemv;

/// A kernel of this folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kernel {
    Rows(Dtype, Shape),
    Split(Dtype, u32, Target),
    Columns(Dtype, Tile, Target),
    Finish(Dtype, u32),
}

/// What a kernel writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Target {
    Results,
    Sums,
}

fn make(kernel: &Kernel) -> AnyKernel {
    match *kernel {
        Kernel::Rows(dtype, shape) => for_dtype!(dtype, rows(shape)),
        Kernel::Split(dtype, width, Target::Results) => for_dtype!(dtype, split_to_results(width)),
        Kernel::Split(dtype, width, Target::Sums) => for_dtype!(dtype, split_to_sums(width)),
        Kernel::Columns(dtype, tile, Target::Results) => for_dtype!(dtype, columns_to_results(tile)),
        Kernel::Columns(dtype, tile, Target::Sums) => for_dtype!(dtype, columns_to_sums(tile)),
        Kernel::Finish(dtype, lanes) => for_dtype!(dtype, finish(lanes)),
    }
}

fn split_to_results<T: Element>(width: u32) -> Split<T, T> {
    split(width)
}

fn split_to_sums<T: Element>(width: u32) -> Split<T, T::Acc> {
    split(width)
}

fn columns_to_results<T: Element>(tile: Tile) -> Columns<T, T> {
    columns(tile)
}

fn columns_to_sums<T: Element>(tile: Tile) -> Columns<T, T::Acc> {
    columns(tile)
}

impl Family for Gemv {
    type Problem = Problem;

    fn plan(&self, problem: &Problem, planner: &Planner<'_>) -> Result<Plan, Error> {
        self.plan_with(&Choice::new(*problem, planner.limits)?, planner)
    }
}

impl Gemv {
    /// As [`Family::plan`], by a choice that was made before.
    ///
    /// # Errors
    /// [`ErrorKind::Operand`](crate::ErrorKind::Operand) for a matrix larger than any memory.
    pub fn plan_with(&self, choice: &Choice, planner: &Planner<'_>) -> Result<Plan, Error> {
        let Choice { problem, algorithm, part, num_parts, .. } = *choice;
        let Problem { dtype, rows, columns, row_stride, .. } = problem;
        let [matrix, vector, result] = problem.operands()?;
        let mut plan = Plan::new("gemv").input(matrix).input(vector).output(result).choice(choice);
        plan.bytes_in_flight = Some(choice.bytes_in_flight_a_thread());
        let Some(config) = choice.launch else { return Ok(plan) };
        let (target, sums) = match choice.sums_bytes() {
            0 => (Target::Results, Operand::Output(0)),
            bytes => (Target::Sums, plan.add_scratch(bytes)),
        };
        let before_first = rows.saturating_sub(1) * row_stride.min(0).unsigned_abs() * dtype.bytes();
        let step = |kernel| {
            let step = Step::new(planner.kernel(kernel, make), config);
            step.arg(Arg::PointerAt(Operand::Input(0), before_first)).arg(Operand::Input(1)).arg(sums)
        };
        let step = match algorithm {
            Algorithm::Rows(shape) => {
                step(Kernel::Rows(dtype, shape)).arg(Arg::value(rows)).arg(Arg::value(columns as u32))
            }
            Algorithm::Split(width) => {
                step(Kernel::Split(dtype, width, target)).arg(Arg::value(columns)).arg(Arg::value(part as u32))
            }
            Algorithm::Columns(tile) => {
                let step = step(Kernel::Columns(dtype, tile, target)).arg(Arg::value(rows));
                step.arg(Arg::value(columns)).arg(Arg::value(part))
            }
        };
        plan.steps.push(step.arg(Arg::value(row_stride)));
        if let Some(config) = choice.finish() {
            let kernel = planner.kernel(Kernel::Finish(dtype, choice.finish_lanes()), make);
            let step = Step::new(kernel, config).arg(sums).arg(Operand::Output(0));
            plan.steps.push(step.arg(Arg::value(u64::from(num_parts))).arg(Arg::value(choice.num_results())));
        }
        Ok(plan)
    }
}
