//! Softmax of scores times values: `O = softmax(S) V`, the weights never written to memory.
//!
//! Contract: scores `[…, rows, len]`, values `[…, len, width]`, results `[…, rows, width]` in C
//! order; inputs of any layout, copied before where they are not contiguous. Element types f16,
//! bf16, f32, f64, the same for all three, and eight-bit floats, whose results are f32; computed in
//! f32 at least, in a fixed order. A block computes `ROWS` rows: each warp folds the softmax
//! statistics of one of them, then all threads walk over the values once, with the weights of a run
//! of positions in shared memory; threads are columns of the values, several runs side by side
//! where there are fewer columns than threads. Scores are read twice, values once a block. Start
//! with [`SoftmaxV`].

mod kernel;

use warpfold_device::LaunchConfig;

use kernel::SoftmaxVArgs;

use crate::map::add_contiguous;
use crate::plan::{Family, Plan, Planned, Planner, Step, TensorSpec, grid_size, within_limit};
use crate::{AnyKernel, Dtype, Error, ErrorKind};

/// Rows per block: one per warp.
const ROWS: u32 = 8;

/// The family of softmax times values. Inputs are scores and values, the output the results.
#[derive(Debug, Clone, Copy, Default)]
pub struct SoftmaxV;

/// Scores and values.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Problem {
    /// `[…, rows, len]`.
    pub scores: TensorSpec,
    /// `[…, len, width]`, of the same type.
    pub values: TensorSpec,
}

/// What the kernel is built for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct SoftmaxVConfig {
    dtype: Dtype,
    /// Columns of the values that the threads of a block take at once: the others take other
    /// positions of the same columns.
    columns: u32,
}

impl Problem {
    /// The results.
    ///
    /// # Errors
    /// [`ErrorKind::DtypeMismatch`], [`ErrorKind::Operand`] for the shapes, [`ErrorKind::Empty`]
    /// without positions, [`ErrorKind::Unsupported`] for an element type that is no float.
    pub fn results(&self) -> Result<TensorSpec, Error> {
        let (scores, values) = (self.scores.layout.shape(), self.values.layout.shape());
        let dtype = self.scores.dtype;
        if self.values.dtype != dtype {
            let operand = "the values of softmax-v".to_owned();
            return Err(ErrorKind::DtypeMismatch { operand, found: self.values.dtype, expected: dtype }.into());
        }
        let shape = match (scores, values) {
            ([batch @ .., rows, len], [batch_of_values @ .., len_of_values, width])
                if batch == batch_of_values && len == len_of_values =>
            {
                [batch, &[*rows, *width]].concat()
            }
            _ => {
                let reason = format!(
                    "scores [batch…, rows, positions] and values [batch…, positions, width] have {scores:?} and {values:?}"
                );
                return Err(ErrorKind::Operand { operator: "softmax-v", reason }.into());
            }
        };
        if scores.last() == Some(&0) {
            return Err(ErrorKind::Empty("softmax-v".to_owned()).into());
        }
        let results = match dtype {
            Dtype::F8E4M3 | Dtype::F8E5M2 => Dtype::F32,
            dtype if dtype.is_float() => dtype,
            dtype => return Err(ErrorKind::Unsupported { op: "softmax-v".to_owned(), dtype }.into()),
        };
        TensorSpec::contiguous(results, &shape)
    }
}

impl Family for SoftmaxV {
    type Problem = Problem;

    fn plan(&self, problem: &Problem, planner: &Planner<'_>) -> Result<Plan, Error> {
        let (Problem { scores, values }, results) = (problem, problem.results()?);
        let ([batch @ .., rows, width], Some(len)) = (results.layout.shape(), scores.layout.shape().last()) else {
            unreachable!("results are matrices")
        };
        let (len, width) = (within_limit("a row", *len as u64)?, within_limit("the width", *width as u64)?);
        let blocks = grid_size(batch.iter().product::<usize>() as u64 * (*rows as u64).div_ceil(ROWS.into()))?;
        let columns = width.next_power_of_two().clamp(32, 32 * ROWS);
        let config = SoftmaxVConfig { dtype: scores.dtype, columns };
        let mut plan = Plan::new("softmax-v").choice(format_args!("{config:?}"));
        let inputs = [("the scores", scores), ("the values", values)];
        let [read_scores, read_values] = inputs.map(|(name, spec)| (plan.add_input(spec.operand(name)), spec));
        let output = plan.add_output(results.operand("the results"));
        if results.layout.is_empty() {
            return Ok(plan);
        }
        let args = SoftmaxVArgs::<Planned> {
            scores: add_contiguous(&mut plan, read_scores, planner)?.0,
            values: add_contiguous(&mut plan, read_values, planner)?.0,
            results: output,
            num_rows: *rows as u32,
            len,
            width,
        };
        let launch = LaunchConfig::new(blocks, 32 * ROWS);
        Ok(plan.step(Step::new(planner.kernel(config, kernel_of), launch).with(args)?))
    }
}

fn kernel_of(config: &SoftmaxVConfig) -> AnyKernel {
    let SoftmaxVConfig { dtype, columns } = *config;
    match dtype {
        Dtype::F64 => kernel::softmax_v::<f64>(dtype, dtype, columns),
        Dtype::F8E4M3 | Dtype::F8E5M2 => kernel::softmax_v::<f32>(dtype, Dtype::F32, columns),
        _ => kernel::softmax_v::<f32>(dtype, dtype, columns),
    }
}
