//! The reductions.

use warpfold_kernels::operations::{self, Number, Operation};
use warpfold_kernels::reductions::{self, Reduction};
use warpfold_kernels::{Dtype, Error, ErrorKind};

use super::{Choice, Operator, Options, segments};
use crate::Tensor;
use crate::reduce::fold;

macro_rules! operators {
    ($($name:literal $inputs:literal $outputs:literal [$($choice:ident)*] $summary:literal;)*) => {
        pub(super) const OPERATORS: &[Operator] = &[$(Operator {
            name: $name,
            summary: $summary,
            inputs: ($inputs, $inputs),
            outputs: $outputs,
            options: &[Choice::Axes, Choice::Keepdims $(, Choice::$choice)*],
            body: run,
        }),*];
    };
}

operators! {
    "sum" 1 1 [Dtype Initial Offsets] "X → the sum over the axes, of integers in 64 bits";
    "prod" 1 1 [Dtype Initial Offsets] "X → the product, of integers in 64 bits";
    "mean" 1 1 [Dtype Offsets] "X → the mean, of integers f64";
    "min" 1 1 [IgnoreNan Initial Offsets] "X → the smallest element";
    "max" 1 1 [IgnoreNan Initial Offsets] "X → the largest element";
    "min-max" 1 2 [IgnoreNan Offsets] "X → the smallest, the largest element";
    "any" 1 1 [Offsets] "X → whether any element is not zero";
    "all" 1 1 [Offsets] "X → whether no element is zero";
    "count-nonzero" 1 1 [Offsets] "X → how many elements are not zero";
    "argmin" 1 1 [Last IgnoreNan Offsets] "X → the position of the smallest element in the folded axes";
    "argmax" 1 1 [Last IgnoreNan Offsets] "X → the position of the largest element in the folded axes";
    "l1" 1 1 [Dtype Offsets] "X → the sum of magnitudes";
    "l2" 1 1 [Dtype Offsets] "X → the root of the sum of squares, of integers f64";
    "linf" 1 1 [Offsets] "X → the largest magnitude";
    "abs-max" 1 1 [Offsets] "X → the largest magnitude";
    "sum-squares" 1 1 [Dtype Offsets] "X → the sum of squares";
    "log-sum" 1 1 [Dtype Offsets] "X → the logarithm of the sum, of integers f64";
    "log-sum-exp" 1 1 [Dtype Offsets] "X → the logarithm of the sum of exponentials, of integers f64";
    "max-sum-exp" 1 2 [Dtype Offsets] "X → the largest element, the sum of e^(x - largest), in one read";
    "var" 1 1 [Dtype Ddof TwoPass Offsets] "X → the variance, of integers f64";
    "std" 1 1 [Dtype Ddof TwoPass Offsets] "X → the standard deviation, of integers f64";
    "mean-var" 1 2 [Dtype Ddof TwoPass Offsets] "X → the mean, the variance, of integers f64";
    "dot" 2 1 [Dtype] "X, Y → the sum of products";
    "reproducible-sum" 1 1 [Dtype] "X → the sum, the same bits whatever the order";
}

fn run(operator: &Operator, inputs: &[Tensor], options: &Options) -> Result<Vec<Tensor>, Error> {
    let reduction: Reduction = operator.name.parse()?;
    let axes = options.axes_or_all();
    let chosen = reductions::Options {
        dtype: options.dtype,
        ignore_nan: options.ignore_nan == Some(true),
        last: options.last == Some(true),
        ddof: options.ddof.map(|ddof| ddof as u64),
        k: None,
    };
    if let Some((x, offsets)) = segments::of(operator, inputs, options)? {
        let other = [(options.keepdims, Choice::Keepdims), (options.two_pass, Choice::TwoPass)];
        if let Some((_, choice)) = other.iter().find(|(chosen, _)| *chosen == Some(true)) {
            let op = format!("{} of segments", operator.name);
            return Err(ErrorKind::OptionNotTaken { op, option: choice.name() }.into());
        }
        let results = x.segment_reduce(reduction, offsets, chosen)?;
        return with_initial(reduction, results, options.initial);
    }
    if let [x, y] = inputs
        && x.shape() != y.shape()
    {
        return Err(ErrorKind::ShapeMismatch { left: x.shape().to_vec(), right: y.shape().to_vec() }.into());
    }
    let results = match (options.two_pass, options.initial) {
        (Some(true), _) => inputs[0].reduce_in_two_passes(reduction, axes, chosen)?,
        (_, Some(initial)) if inputs[0].is_empty() => vec![of_nothing(reduction, &inputs[0], options, initial)?],
        (_, initial) => {
            with_initial(reduction, fold(&inputs.iter().collect::<Vec<_>>(), reduction, axes, chosen)?, initial)?
        }
    };
    if options.keepdims != Some(true) {
        return Ok(results);
    }
    results.iter().map(|result| result.keep_axes(axes, inputs[0].rank())).collect()
}

/// A number as an element of a type.
fn number(reduction: Reduction, dtype: Dtype, initial: f64) -> Result<Number, Error> {
    // From here on a float does not have every integer.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let (least, most) = match dtype {
        Dtype::Bool => (0.0, 1.0),
        _ if dtype.is_float() => return Ok(Number::Float(initial)),
        Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64 => (0.0, EXACT.min((dtype.bytes() as f64 * 8.0).exp2() - 1.0)),
        _ => {
            let half = (dtype.bytes() as f64 * 8.0 - 1.0).exp2();
            ((-half).max(-EXACT), EXACT.min(half - 1.0))
        }
    };
    if initial.fract() != 0.0 || !(least..=most).contains(&initial) {
        let expected = format!("that is a whole number from {least} to {most} for {dtype}");
        return Err(ErrorKind::OptionOutOfRange { op: reduction.to_string(), option: "initial", expected }.into());
    }
    Ok(Number::Integer(initial as i128))
}

/// Results combined with what the reduction starts with.
fn with_initial(reduction: Reduction, results: Vec<Tensor>, initial: Option<f64>) -> Result<Vec<Tensor>, Error> {
    let (Some(initial), [result]) = (initial, &results[..]) else { return Ok(results) };
    let operation = match reduction {
        Reduction::Sum => Operation::Add,
        Reduction::Product => Operation::Mul,
        Reduction::Min => Operation::Minimum,
        Reduction::Max => Operation::Maximum,
        _ => return Err(ErrorKind::OptionNotTaken { op: reduction.to_string(), option: "initial" }.into()),
    };
    let number = number(reduction, result.dtype(), initial)?;
    let start = Tensor::filled(result.queue(), result.dtype(), number, &[])?;
    Ok(vec![result.elementwise(operation, &[&start], &operations::Options::default())?])
}

/// The reduction of a tensor without elements, where it has no value by itself.
fn of_nothing(reduction: Reduction, x: &Tensor, options: &Options, initial: f64) -> Result<Tensor, Error> {
    let dtype = reductions::outputs(
        reduction,
        &[x.dtype()],
        reductions::Options { dtype: options.dtype, ..reductions::Options::default() },
    )?[0];
    let axes = options.axes_or_all().resolve(x.rank())?;
    let kept = x.shape().iter().enumerate().filter(|(axis, _)| !axes.contains(axis)).map(|(_, size)| *size);
    Tensor::filled(x.queue(), dtype, number(reduction, dtype, initial)?, &kept.collect::<Vec<_>>())
}
