//! The family of reductions: their folds, planned without making them again.

use super::{Options, Reduction, fold_of};
use crate::Error;
use crate::plan::{Family, Plan, Planner, TensorSpec};

/// The family of reductions by name. The fold of a reduction is made only when a problem is
/// planned.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reductions;

/// What is reduced: tensors of one shape over some of their axes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Problem {
    /// The reduction.
    pub reduction: Reduction,
    /// What was chosen of it.
    pub options: Options,
    /// The tensors.
    pub inputs: Vec<TensorSpec>,
    /// The reduced axes: positions, in order.
    pub axes: Vec<usize>,
}

impl Family for Reductions {
    type Problem = Problem;

    fn plan(&self, problem: &Problem, planner: &Planner<'_>) -> Result<Plan, Error> {
        let Problem { reduction, options, inputs, axes } = problem;
        let dtypes: Vec<_> = inputs.iter().map(|input| input.dtype).collect();
        let fold = fold_of(*reduction, &dtypes, *options)?;
        let shape = inputs[0].layout.shape();
        reduction.check_len(*options, axes.iter().map(|axis| shape[*axis]).product())?;
        fold.plan(&fold.problem(inputs.clone(), axes), planner)
    }
}
