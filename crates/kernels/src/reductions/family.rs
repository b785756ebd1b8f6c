//! The family of reductions: their folds, planned without making them again.

use super::{Options, Reduction, check_len, fold_of};
use crate::layout::Layout;
use crate::plan::{Family, Plan, Planner};
use crate::{Dtype, Error};

/// The family of reductions by name. The fold of a reduction is made only when a problem is planned.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reductions;

/// What is reduced: tensors of one shape over some of their axes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Problem {
    /// The reduction.
    pub reduction: Reduction,
    /// What was chosen of it.
    pub options: Options,
    /// The element types of the inputs.
    pub dtypes: Vec<Dtype>,
    /// The layouts of the inputs.
    pub layouts: Vec<Layout>,
    /// Powers of two that the addresses of the inputs are multiples of, in bytes.
    pub alignments: Vec<u64>,
    /// The reduced axes: positions, in order.
    pub axes: Vec<usize>,
}

impl Family for Reductions {
    type Problem = Problem;

    fn plan(&self, problem: &Problem, planner: &Planner<'_>) -> Result<Plan, Error> {
        let Problem { reduction, options, dtypes, layouts, alignments, axes } = problem;
        let fold = fold_of(*reduction, dtypes, *options)?;
        let shape = layouts[0].shape();
        check_len(*reduction, *options, axes.iter().map(|axis| shape[*axis]).product())?;
        // An alignment stands for an address: the rules see no more of it.
        fold.plan(&fold.problem(&layouts.iter().collect::<Vec<_>>(), alignments, axes), planner)
    }
}
