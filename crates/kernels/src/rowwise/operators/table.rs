//! Operator, conversions and results of each name for each element type.

use std::sync::Arc;

use warpfold_lang::Val;

use super::float::{Exponentials, RowFloat};
use super::{AbsMaxScale, LayerNorm, LogSoftmax, Quantize, RmsNorm, Softmax};
use crate::elements::{Sink, Source};
use crate::plan::Key;
use crate::rowwise::{OperandTypes, RowWise};
use crate::{Dtype, Error, ErrorKind};

/// A row operator with its constants.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RowOp {
    /// `e^(s·x + mask) / Σ e^(s·x + mask)`; the mask is a second row input.
    Softmax {
        /// The factor before the exponential.
        scale: f64,
    },
    /// `s·x + mask - ln Σ e^(s·x + mask)`.
    LogSoftmax {
        /// The factor before the exponential.
        scale: f64,
    },
    /// `(x - mean) / sqrt(variance + eps) * scale + bias`. A second row input is added before;
    /// columns are scale and bias. Statistics: mean and reciprocal standard deviation, in the type
    /// that is computed in (`f64` if an input has it, else `f32`), as in ONNX.
    LayerNorm(Norm),
    /// `x / sqrt(mean of x² + eps) * scale + bias`, with inputs and columns of a layer norm.
    /// Statistic: the reciprocal of the root, in the type that is computed in.
    RmsNorm(Norm),
    /// See [`AbsMaxScale`]. Statistic: the largest magnitude.
    AbsMaxScale,
    /// Each row divided by a scale that brings its largest magnitude to that of the results, which
    /// are `i8`, `f8e4m3` or `f8e5m2`. Statistic: the scale, `f32`; of a row of zeros it is 1.
    Quantize {
        /// The element type of the results.
        to: Dtype,
    },
}

/// The constants of a norm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Norm {
    /// What is added under the root.
    pub eps: f64,
    /// Whether the sum of both row inputs is a second result.
    pub keep_sum: bool,
}

/// Element types of what an operator takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Types<'a> {
    /// Of the row inputs.
    pub rows: &'a [Dtype],
    /// Of the vectors along the row.
    pub columns: &'a [Dtype],
}

impl RowOp {
    /// As the program takes it: `layer-norm`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Softmax { .. } => "softmax",
            Self::LogSoftmax { .. } => "log-softmax",
            Self::LayerNorm(_) => "layer-norm",
            Self::RmsNorm(_) => "rms-norm",
            Self::AbsMaxScale => "abs-max-scale",
            Self::Quantize { .. } => "quantize",
        }
    }
}

/// The operator for these element types.
///
/// # Errors
/// [`ErrorKind::Unsupported`].
pub fn operator_of(op: RowOp, types: Types<'_>) -> Result<RowWise, Error> {
    for dtype in types.rows.iter().chain(types.columns) {
        if !dtype.is_float() {
            return Err(ErrorKind::Unsupported { op: op.name().to_owned(), dtype: *dtype }.into());
        }
    }
    let is_double = types.rows.iter().chain(types.columns).any(|dtype| *dtype == Dtype::F64);
    let computed = if is_double { Dtype::F64 } else { Dtype::F32 };
    let operands = op.operands(types, computed);
    let [rows, columns] = [types.rows, types.columns].map(<[Dtype]>::to_vec);
    let built_in = Arc::new(BuiltIn { name: op.name(), constants: op.constants(), rows, columns });
    let key = Key::of(built_in.clone());
    let make = move || {
        let types = Types { rows: &built_in.rows, columns: &built_in.columns };
        if is_double { make::<f64>(op, types) } else { make::<f32>(op, types) }
    };
    Ok(RowWise::lazy(key, operands, make))
}

/// What the kernels of an operator are built for.
#[derive(Debug, PartialEq, Eq, Hash)]
struct BuiltIn {
    name: &'static str,
    constants: (u64, bool, Option<Dtype>),
    rows: Vec<Dtype>,
    columns: Vec<Dtype>,
}

impl RowOp {
    /// Its constants, floats as their bits.
    const fn constants(self) -> (u64, bool, Option<Dtype>) {
        match self {
            Self::Softmax { scale } | Self::LogSoftmax { scale } => (scale.to_bits(), false, None),
            Self::LayerNorm(norm) | Self::RmsNorm(norm) => (norm.eps.to_bits(), norm.keep_sum, None),
            Self::AbsMaxScale => (0, false, None),
            Self::Quantize { to } => (0, false, Some(to)),
        }
    }

    /// The element types of what it reads and writes.
    fn operands(self, types: Types<'_>, computed: Dtype) -> OperandTypes {
        let (first, columns) = (types.rows[0], types.columns.to_vec());
        let (results, stats) = match self {
            Self::Softmax { .. } | Self::LogSoftmax { .. } => (vec![first], vec![]),
            Self::LayerNorm(norm) => (vec![first; 1 + usize::from(norm.keep_sum)], vec![computed; 2]),
            Self::RmsNorm(norm) => (vec![first; 1 + usize::from(norm.keep_sum)], vec![computed]),
            Self::AbsMaxScale => (vec![first], vec![first]),
            Self::Quantize { to } => (vec![to], vec![Dtype::F32]),
        };
        OperandTypes { inputs: types.rows.to_vec(), columns, results, stats }
    }
}

fn make<F: RowFloat>(op: RowOp, types: Types<'_>) -> RowWise {
    let dtype = types.rows[0];
    let with = Exponentials::<F>::new(dtype.bytes() <= 2);
    let one = || Sink::one::<F>(dtype);
    let stat = || Sink::one::<F>(F::DTYPE);
    let name = |columns: &[Dtype]| {
        let types: String = types.rows.iter().chain(columns).map(|dtype| format!("_{dtype}")).collect();
        format!("{}{types}", op.name().replace('-', "_"))
    };
    let (has_scale, has_bias) = (!types.columns.is_empty(), types.columns.len() > 1);
    match op {
        RowOp::Softmax { scale } => {
            let sources = (scaled_and_masked::<F>(types.rows, scale), Source::nothing());
            RowWise::new(name(&[]), Softmax(with), sources, (one(), Sink::nothing()))
        }
        RowOp::LogSoftmax { scale } => {
            let sources = (scaled_and_masked::<F>(types.rows, scale), Source::nothing());
            RowWise::new(name(&[]), LogSoftmax(with), sources, (one(), Sink::nothing()))
        }
        RowOp::LayerNorm(norm) => {
            let operator = LayerNorm { eps: F::from_f64(norm.eps), has_scale, has_bias };
            let sources = (summed(types.rows), scale_and_bias(types.columns));
            let sinks = (with_sum(dtype, norm.keep_sum), stat().zip(stat()));
            RowWise::new(name(types.columns), operator, sources, sinks)
        }
        RowOp::RmsNorm(norm) => {
            let operator = RmsNorm { eps: F::from_f64(norm.eps), has_scale, has_bias };
            let sources = (summed(types.rows), scale_and_bias(types.columns));
            RowWise::new(name(types.columns), operator, sources, (with_sum(dtype, norm.keep_sum), stat()))
        }
        RowOp::AbsMaxScale => {
            let sources = (Source::one::<F>(dtype), Source::nothing());
            RowWise::new(name(&[]), AbsMaxScale::<F>::new(), sources, (one(), one()))
        }
        RowOp::Quantize { to } => {
            let (top, rounds) = match to {
                Dtype::F8E4M3 => (448.0, false),
                Dtype::F8E5M2 => (57_344.0, false),
                _ => (127.0, true),
            };
            let sources = (Source::one::<F>(dtype), Source::nothing());
            let sinks = (Sink::one::<F>(to), Sink::one::<F>(Dtype::F32));
            RowWise::new(name(&[to]), Quantize::<F>::new(top, rounds), sources, sinks)
        }
    }
}

/// The first input times the scale, plus the second one where there is one.
fn scaled_and_masked<F: RowFloat>(dtypes: &[Dtype], scale: f64) -> Source<Val<F>> {
    let factor = Val::constant(F::from_f64(scale));
    let scaled = move |x: Val<F>| if scale.to_bits() == 1.0_f64.to_bits() { x } else { x * factor };
    match *dtypes {
        [dtype] => Source::one::<F>(dtype).map(scaled),
        [dtype, mask, ..] => Source::one::<F>(dtype).map(scaled).zip(Source::one::<F>(mask)).map(|(x, mask)| x + mask),
        [] => unreachable!("a row operator has a row input"),
    }
}

/// The first input, plus the second one where there is one.
fn summed<F: RowFloat>(dtypes: &[Dtype]) -> Source<Val<F>> {
    scaled_and_masked(dtypes, 1.0)
}

fn scale_and_bias<F: RowFloat>(dtypes: &[Dtype]) -> Source<(Val<F>, Val<F>)> {
    match *dtypes {
        [] => Source::nothing().map(|()| (Val::constant(F::ONE), Val::constant(F::ZERO))),
        [scale] => Source::one::<F>(scale).map(|scale| (scale, Val::constant(F::ZERO))),
        [scale, bias, ..] => Source::one::<F>(scale).zip(Source::one::<F>(bias)),
    }
}

/// The result, and its item where the sum is a result, too.
fn with_sum<F: RowFloat>(dtype: Dtype, keep_sum: bool) -> Sink<(Val<F>, Val<F>)> {
    let result = Sink::one::<F>(dtype);
    if keep_sum { result.zip(Sink::one::<F>(dtype)) } else { result.after(|(result, _)| result) }
}
