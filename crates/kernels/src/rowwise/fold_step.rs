//! The one place where row operators and losses plan a fold: as a step of their own plans.

use crate::Error;
use crate::fold::Fold;
use crate::plan::{Family, Operand, Plan, Planner, TensorSpec};

/// Adds the fold over `axes` of the inputs, which the tensors describe.
///
/// # Errors
/// Those of the fold.
pub(crate) fn add_fold(
    plan: &mut Plan,
    fold: &Fold,
    inputs: &[(Operand, TensorSpec)],
    axes: &[usize],
    outputs: impl IntoIterator<Item = Operand>,
    planner: &Planner<'_>,
) -> Result<(), Error> {
    let problem = fold.problem(inputs.iter().map(|(_, spec)| spec.clone()).collect(), axes);
    let folded = fold.plan(&problem, planner)?;
    plan.bytes_in_flight = folded.bytes_in_flight;
    let inputs: Vec<_> = inputs.iter().map(|(operand, _)| (*operand, 0)).collect();
    let outputs: Vec<_> = outputs.into_iter().map(|operand| (operand, 0)).collect();
    plan.append(folded, &inputs, &outputs);
    Ok(())
}
