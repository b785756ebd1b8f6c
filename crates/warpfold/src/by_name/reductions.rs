//! The reductions.

use warpfold_kernels::Error;
use warpfold_kernels::reductions::{self, Reduction};

use super::{Choice, Operator, Options};
use crate::Tensor;
use crate::reduce::fold;

pub(super) const OPERATORS: &[Operator] = &[Operator {
    name: "sum",
    summary: "X → the sum over the axes",
    inputs: (1, 1),
    outputs: 1,
    options: &[Choice::Axes, Choice::Keepdims, Choice::Dtype],
    body: run,
}];

fn run(operator: &Operator, inputs: &[Tensor], options: &Options) -> Result<Vec<Tensor>, Error> {
    let reduction: Reduction = operator.name.parse()?;
    let axes = options.axes_or_all();
    let chosen = reductions::Options { dtype: options.dtype, ..reductions::Options::default() };
    let results = fold(&inputs.iter().collect::<Vec<_>>(), reduction, axes, chosen)?;
    if options.keepdims != Some(true) {
        return Ok(results);
    }
    results.iter().map(|result| result.keep_axes(axes, inputs[0].rank())).collect()
}
