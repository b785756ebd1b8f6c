//! Which operator, which conversions and which results each name has for each element type.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use warpfold_lang::Val;

use super::float::{Exponentials, RowFloat};
use super::{AbsMaxScale, LayerNorm, LogSoftmax, Quantize, RmsNorm, Softmax};
use crate::elements::{Sink, Source};
use crate::rowwise::{AnyRowWise, RowOperator, RowWise};
use crate::{Dtype, Error, ErrorKind};

/// A row operator with everything that its kernels are built for.
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
    /// See [`LayerNorm`]. A second row input is added before; columns are scale, bias. Statistics: mean, reciprocal of
    /// the standard deviation, in the type that is computed in (`f64` if an input has it, else `f32`), as in ONNX.
    LayerNorm(Norm),
    /// See [`RmsNorm`]. Statistic: the reciprocal of the root, of that type, too.
    RmsNorm(Norm),
    /// See [`AbsMaxScale`]. Statistic: the largest magnitude.
    AbsMaxScale,
    /// See [`Quantize`]: results of type `i8`, `f8e4m3` or `f8e5m2`. Statistic: the scale, `f32`.
    Quantize {
        /// The element type of the results.
        to: Dtype,
    },
}

/// What a norm is built for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Norm {
    /// What is added below the root.
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

/// The operator for these element types, made once a process.
///
/// # Errors
/// [`ErrorKind::Unsupported`].
pub fn operator_of(op: RowOp, types: Types<'_>) -> Result<Arc<dyn AnyRowWise>, Error> {
    // Constants of kernels are compared by their text, which tells every two floats apart.
    static MADE: LazyLock<Mutex<HashMap<String, Arc<dyn AnyRowWise>>>> = LazyLock::new(Mutex::default);
    let key = format!("{op:?} {types:?}");
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = made.get(&key) {
        return Ok(known.clone());
    }
    for dtype in types.rows.iter().chain(types.columns) {
        if !dtype.is_float() {
            return Err(ErrorKind::Unsupported { op: op.name().to_owned(), dtype: *dtype }.into());
        }
    }
    let is_double = types.rows.iter().chain(types.columns).any(|dtype| *dtype == Dtype::F64);
    let operator = if is_double { make::<f64>(op, types) } else { make::<f32>(op, types) };
    Ok(made.entry(key).or_insert(operator).clone())
}

fn make<F: RowFloat>(op: RowOp, types: Types<'_>) -> Arc<dyn AnyRowWise> {
    let dtype = types.rows[0];
    let with = Exponentials::<F>::new(dtype.bytes() <= 2);
    let one = || Sink::one::<F>(dtype);
    let two = || Sink::one::<F>(F::DTYPE).zip(Sink::one::<F>(F::DTYPE));
    let two_back = || Source::one::<F>(F::DTYPE).zip(Source::one::<F>(F::DTYPE));
    let between = || (Sink::one::<F>(F::DTYPE), Source::one::<F>(F::DTYPE));
    let name = |columns: &[Dtype]| {
        let types: String = types.rows.iter().chain(columns).map(|dtype| format!("_{dtype}")).collect();
        format!("{}{types}", op.name().replace('-', "_"))
    };
    match op {
        RowOp::Softmax { scale } => {
            let (source, sinks) = (scaled_and_masked::<F>(types.rows, scale), (one(), Sink::nothing()));
            made(RowWise::new(name(&[]), Softmax(with), (source, Source::nothing()), sinks, (two(), two_back())))
        }
        RowOp::LogSoftmax { scale } => {
            let (source, sinks) = (scaled_and_masked::<F>(types.rows, scale), (one(), Sink::nothing()));
            made(RowWise::new(name(&[]), LogSoftmax(with), (source, Source::nothing()), sinks, (two(), two_back())))
        }
        RowOp::LayerNorm(norm) => {
            let operator =
                LayerNorm { eps: F::from_f64(norm.eps), has_scale: has_scale(types), has_bias: has_bias(types) };
            let sources = (summed(types.rows), scale_and_bias(types.columns));
            let sinks = (with_sum(dtype, norm.keep_sum), two());
            made(RowWise::new(name(types.columns), operator, sources, sinks, (two(), two_back())))
        }
        RowOp::RmsNorm(norm) => {
            let operator =
                RmsNorm { eps: F::from_f64(norm.eps), has_scale: has_scale(types), has_bias: has_bias(types) };
            let sources = (summed(types.rows), scale_and_bias(types.columns));
            let sinks = (with_sum(dtype, norm.keep_sum), Sink::one::<F>(F::DTYPE));
            made(RowWise::new(name(types.columns), operator, sources, sinks, between()))
        }
        RowOp::AbsMaxScale => {
            let sources = (Source::one::<F>(dtype), Source::nothing());
            made(RowWise::new(name(&[]), AbsMaxScale::<F>::new(), sources, (one(), one()), between()))
        }
        RowOp::Quantize { to } => {
            let (top, rounds) = match to {
                Dtype::F8E4M3 => (448.0, false),
                Dtype::F8E5M2 => (57_344.0, false),
                _ => (127.0, true),
            };
            let sources = (Source::one::<F>(dtype), Source::nothing());
            let sinks = (Sink::one::<F>(to), Sink::one::<F>(Dtype::F32));
            made(RowWise::new(name(&[to]), Quantize::<F>::new(top, rounds), sources, sinks, between()))
        }
    }
}

fn made<O: RowOperator>(rowwise: RowWise<O>) -> Arc<dyn AnyRowWise> {
    Arc::new(rowwise)
}

fn has_scale(types: Types<'_>) -> bool {
    !types.columns.is_empty()
}

fn has_bias(types: Types<'_>) -> bool {
    types.columns.len() > 1
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

/// The result, and the item that it was made of where it is wanted.
fn with_sum<F: RowFloat>(dtype: Dtype, keep_sum: bool) -> Sink<(Val<F>, Val<F>)> {
    let result = Sink::one::<F>(dtype);
    if keep_sum { result.zip(Sink::one::<F>(dtype)) } else { result.after(|(result, _)| result) }
}
