//! The one place where row operators and losses plan a fold: as a step of their own plans.

use std::sync::Arc;

use warpfold_lang::FixedRegisters;

use crate::Error;
use crate::elements::{Sink, Source};
use crate::fold::{AnyFold, Fold, Monoid, Shape};
use crate::plan::{Arg, Key, Operand, Plan, Planner, Step, TensorSpec};

/// A fold of any monoid.
pub(crate) type ErasedFold = Arc<dyn AnyFold>;

/// A fold that steps are planned of. The names of its kernels begin with `name`.
pub(crate) fn erased_fold<M>(name: String, monoid: M, source: Source<M::Item>, sink: Sink<M::Output>) -> ErasedFold
where
    M: Monoid<Item: FixedRegisters, Output: FixedRegisters>,
{
    Arc::new(Fold::new(name, monoid, source, sink))
}

/// What a kernel is built for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Configuration {
    /// Of what the fold is a part.
    of: Key,
    shape: Shape,
}

/// Adds the fold over `axes` of the inputs, which the tensors describe; `of` is equal for equal folds
/// alone.
///
/// # Errors
/// Those of the fold.
pub(crate) fn add_fold(
    plan: &mut Plan,
    (of, fold): (&Key, &ErasedFold),
    inputs: &[(Operand, TensorSpec)],
    axes: &[usize],
    outputs: impl IntoIterator<Item = Operand>,
    planner: &Planner<'_>,
) -> Result<(), Error> {
    let layouts: Vec<_> = inputs.iter().map(|(_, spec)| &spec.layout).collect();
    let addresses: Vec<_> = inputs.iter().map(|(_, spec)| spec.alignment()).collect();
    let choice = fold.plan(&layouts, &addresses, axes)?;
    let Some(launch) = choice.launch else { return Ok(()) };
    let configuration = Configuration { of: of.clone(), shape: choice.shape.clone() };
    let (words, tickets) = match choice.tickets {
        0 => (Arg::Null, Arg::Null),
        _ => (plan.add_scratch(8 * choice.workspace_words).into(), Arg::Tickets),
    };
    plan.tickets = plan.tickets.max(choice.tickets);
    plan.bytes_in_flight = Some(choice.bytes_in_flight_a_thread(&[inputs[0].1.dtype]));
    let step = Step::new(planner.kernel(configuration, |_| fold.kernel(&choice)), launch)
        .operands(inputs.iter().map(|(operand, _)| *operand), 2)
        .operands(outputs, 2)
        .arg(words)
        .arg(tickets)
        .words(&choice.geometry.words());
    plan.steps.push(step);
    Ok(())
}
