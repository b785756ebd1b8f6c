//! The operators on rows.

use warpfold_kernels::rowwise::operators::{Norm, RowOp};
use warpfold_kernels::{Dtype, Error, ErrorKind};

use super::{Choice, Operator, Options};
use crate::Tensor;
use crate::in_place::rows_in_place;
use crate::rowwise::{EPS, rows};

pub(super) const OPERATORS: &[Operator] = &[
    Operator {
        name: "softmax",
        summary: "X[, mask] → e^(αX + mask) / Σ e^(αX + mask)",
        inputs: (1, 2),
        outputs: 1,
        options: &[Choice::Axes, Choice::Alpha],
        body: run,
    },
    Operator {
        name: "log-softmax",
        summary: "X[, mask] → the logarithm of softmax",
        inputs: (1, 2),
        outputs: 1,
        options: &[Choice::Axes, Choice::Alpha],
        body: run,
    },
    Operator {
        name: "layer-norm",
        summary: "X[, scale[, bias]] → result, mean, reciprocal standard deviation (f32 at least)",
        inputs: (1, 3),
        outputs: 3,
        options: &[Choice::Axes, Choice::Eps],
        body: run,
    },
    Operator {
        name: "rms-norm",
        summary: "X[, scale[, bias]] → result, reciprocal root mean square (f32 at least)",
        inputs: (1, 3),
        outputs: 2,
        options: &[Choice::Axes, Choice::Eps],
        body: run,
    },
    Operator {
        name: "abs-max-scale",
        summary: "X → rows divided by their largest magnitude, these magnitudes",
        inputs: (1, 1),
        outputs: 2,
        options: &[Choice::Axes],
        body: run,
    },
    Operator {
        name: "quantize",
        summary: "X → rows as i8 (or f8e4m3, f8e5m2), their scales",
        inputs: (1, 1),
        outputs: 2,
        options: &[Choice::Axes, Choice::Dtype],
        body: run,
    },
];

/// The operator with its options, and how many of its inputs lie along rows; the others belong to their positions.
fn chosen(operator: &Operator, num_inputs: usize, options: &Options) -> Result<(RowOp, usize), Error> {
    let scale = options.alpha.unwrap_or(1.0);
    let norm = Norm { eps: options.eps.unwrap_or(EPS), keep_sum: false };
    let to = options.dtype.unwrap_or(Dtype::I8);
    let op = match operator.name {
        "softmax" => RowOp::Softmax { scale },
        "log-softmax" => RowOp::LogSoftmax { scale },
        "layer-norm" => RowOp::LayerNorm(norm),
        "rms-norm" => RowOp::RmsNorm(norm),
        "abs-max-scale" => RowOp::AbsMaxScale,
        _ => RowOp::Quantize { to },
    };
    if matches!(op, RowOp::Quantize { .. }) && !matches!(to, Dtype::I8 | Dtype::F8E4M3 | Dtype::F8E5M2) {
        return Err(ErrorKind::Unsupported { op: operator.name.to_owned(), dtype: to }.into());
    }
    Ok((op, if matches!(op, RowOp::Softmax { .. } | RowOp::LogSoftmax { .. }) { num_inputs } else { 1 }))
}

fn run(operator: &Operator, inputs: &[Tensor], options: &Options) -> Result<Vec<Tensor>, Error> {
    let (op, row_inputs) = chosen(operator, inputs.len(), options)?;
    let inputs: Vec<&Tensor> = inputs.iter().collect();
    let (row_inputs, columns) = inputs.split_at(row_inputs);
    let done = rows(op, row_inputs, columns, options.axes_or_last())?;
    Ok(done.results.into_iter().chain(done.stats).collect())
}

/// The same with the result in the place of the first input.
pub(super) fn run_in_place(
    operator: &Operator,
    first: &mut Tensor,
    others: &[Tensor],
    options: &Options,
) -> Result<Vec<Tensor>, Error> {
    let (op, row_inputs) = chosen(operator, 1 + others.len(), options)?;
    let others: Vec<&Tensor> = others.iter().collect();
    let (row_inputs, columns) = others.split_at(row_inputs - 1);
    let done = rows_in_place(op, first, row_inputs, columns, options.axes_or_last())?;
    Ok(done.results.into_iter().chain(done.stats).collect())
}
