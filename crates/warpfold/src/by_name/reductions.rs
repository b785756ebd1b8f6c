//! The reductions.

use warpfold_kernels::reductions::{self, Reduction};
use warpfold_kernels::{Error, ErrorKind};

use super::{Choice, Operator, Options};
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
    "sum" 1 1 [Dtype] "X → the sum over the axes";
    "prod" 1 1 [Dtype] "X → the product";
    "mean" 1 1 [Dtype] "X → the mean, of integers f64";
    "min" 1 1 [IgnoreNan] "X → the smallest element";
    "max" 1 1 [IgnoreNan] "X → the largest element";
    "min-max" 1 2 [IgnoreNan] "X → the smallest, the largest element";
    "any" 1 1 [] "X → whether any element is not zero";
    "all" 1 1 [] "X → whether no element is zero";
    "count-nonzero" 1 1 [] "X → how many elements are not zero";
    "argmin" 1 1 [Last IgnoreNan] "X → the position of the smallest element in the folded axes";
    "argmax" 1 1 [Last IgnoreNan] "X → the position of the largest element in the folded axes";
    "l1" 1 1 [Dtype] "X → the sum of magnitudes";
    "l2" 1 1 [Dtype] "X → the root of the sum of squares, of integers f64";
    "linf" 1 1 [] "X → the largest magnitude";
    "abs-max" 1 1 [] "X → the largest magnitude";
    "sum-squares" 1 1 [Dtype] "X → the sum of squares";
    "log-sum" 1 1 [Dtype] "X → the logarithm of the sum, of integers f64";
    "log-sum-exp" 1 1 [Dtype] "X → the logarithm of the sum of exponentials, of integers f64";
    "var" 1 1 [Dtype Ddof TwoPass] "X → the variance, of integers f64";
    "std" 1 1 [Dtype Ddof TwoPass] "X → the standard deviation, of integers f64";
    "mean-var" 1 2 [Dtype Ddof TwoPass] "X → the mean, the variance, of integers f64";
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
    if let [x, y] = inputs
        && x.shape() != y.shape()
    {
        return Err(ErrorKind::ShapeMismatch { left: x.shape().to_vec(), right: y.shape().to_vec() }.into());
    }
    let results = match options.two_pass {
        Some(true) => inputs[0].reduce_in_two_passes(reduction, axes, chosen)?,
        _ => fold(&inputs.iter().collect::<Vec<_>>(), reduction, axes, chosen)?,
    };
    if options.keepdims != Some(true) {
        return Ok(results);
    }
    results.iter().map(|result| result.keep_axes(axes, inputs[0].rank())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reduction_has_its_operator() {
        for reduction in Reduction::ALL.iter().filter(|reduction| **reduction != Reduction::TopK) {
            let operator = OPERATORS.iter().find(|operator| operator.name == reduction.name());
            let inputs = operator.unwrap_or_else(|| panic!("{reduction} is no operator")).inputs;
            assert_eq!(inputs, (reduction.inputs(), reduction.inputs()));
        }
    }
}
