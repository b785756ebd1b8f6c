//! The operators on rows.

use warpfold_kernels::rowwise::operators::{Norm, RowOp};
use warpfold_kernels::{Dtype, Error, ErrorKind};

use super::{Choice, Operator, Options};
use crate::Tensor;
use crate::rowwise::{EPS, rows};
use crate::tensor::First;

/// The operator of a row of the table with its options.
type Chosen = fn(&Options) -> Result<RowOp, Error>;

/// The kind of inputs after the first.
#[derive(Debug, Clone, Copy)]
enum Others {
    /// Rows as well.
    Rows,
    /// Vectors along the row.
    Columns,
}

macro_rules! operators {
    ($($name:literal $inputs:tt $others:ident $outputs:literal [$($choice:ident)*] $chosen:expr, $summary:literal;)*) => {
        pub(super) const OPERATORS: &[Operator] = &[$(Operator {
            name: $name,
            summary: $summary,
            inputs: $inputs,
            outputs: $outputs,
            options: &[$(Choice::$choice),*],
            body: |_, inputs, options| run($chosen, Others::$others, First::Read(&inputs[0]), &inputs[1..], options),
        }),*];

        /// Runs the operator of this name with its result in the memory of the first input; `None`
        /// if there is none.
        pub(super) fn run_in_place(
            name: &str,
            first: &mut Tensor,
            others: &[Tensor],
            options: &Options,
        ) -> Option<Result<Vec<Tensor>, Error>> {
            match name {
                $($name => Some(run($chosen, Others::$others, First::Overwritten(first), others, options)),)*
                _ => None,
            }
        }
    };
}

operators! {
    "softmax" (1, 2) Rows 1 [Axes Alpha]
        |options| Ok(RowOp::Softmax { scale: options.alpha.unwrap_or(1.0) }),
        "X[, mask] → e^(αX + mask) / Σ e^(αX + mask)";
    "log-softmax" (1, 2) Rows 1 [Axes Alpha]
        |options| Ok(RowOp::LogSoftmax { scale: options.alpha.unwrap_or(1.0) }),
        "X[, mask] → the logarithm of softmax";
    "layer-norm" (1, 3) Columns 3 [Axes Eps]
        |options| Ok(RowOp::LayerNorm(norm(options))),
        "X[, scale[, bias]] → result, mean, reciprocal standard deviation (f32 at least)";
    "rms-norm" (1, 3) Columns 2 [Axes Eps]
        |options| Ok(RowOp::RmsNorm(norm(options))),
        "X[, scale[, bias]] → result, reciprocal root mean square (f32 at least)";
    "abs-max-scale" (1, 1) Columns 2 [Axes]
        |_| Ok(RowOp::AbsMaxScale),
        "X → rows divided by their largest magnitude, these magnitudes";
    "quantize" (1, 1) Columns 2 [Axes Dtype]
        quantize,
        "X → rows as i8 (or f8e4m3, f8e5m2), their scales";
}

fn norm(options: &Options) -> Norm {
    Norm { eps: options.eps.unwrap_or(EPS), keep_sum: false }
}

fn quantize(options: &Options) -> Result<RowOp, Error> {
    match options.dtype.unwrap_or(Dtype::I8) {
        to @ (Dtype::I8 | Dtype::F8E4M3 | Dtype::F8E5M2) => Ok(RowOp::Quantize { to }),
        dtype => Err(ErrorKind::Unsupported { op: "quantize".to_owned(), dtype }.into()),
    }
}

fn run(
    chosen: Chosen,
    others_are: Others,
    first: First<'_>,
    others: &[Tensor],
    options: &Options,
) -> Result<Vec<Tensor>, Error> {
    let others: Vec<&Tensor> = others.iter().collect();
    let (row_inputs, columns) = match others_are {
        Others::Rows => (&others[..], &[][..]),
        Others::Columns => (&[][..], &others[..]),
    };
    let done = rows(chosen(options)?, first, row_inputs, columns, options.axes_or_last())?;
    Ok(done.results.into_iter().chain(done.stats).collect())
}
