//! Copies of tensors of any layouts, bit for bit; other families plan them as steps of their own.

use super::Map;
use crate::elements::{Sink, Source};
use crate::plan::{Key, Operand, Plan, Planner, TensorSpec};
use crate::{Dtype, Error};

/// The map that copies elements of a type as they are: nothing is rounded, and NaN keep their bits.
#[must_use]
pub fn copy_of(dtype: Dtype) -> Map {
    #[derive(Debug, PartialEq, Eq, Hash)]
    struct CopyOf(Dtype);
    let bits = dtype.bits();
    let name = move || format!("copy_{bits}");
    let make = move || match bits {
        Dtype::U64 => Map::new(name(), Source::one::<u64>(bits), Sink::one::<u64>(bits)),
        _ => Map::new(name(), Source::one::<u32>(bits), Sink::one::<u32>(bits)),
    };
    Map::lazy(Key::of(CopyOf(bits)), vec![dtype], vec![dtype], make)
}

/// Adds a copy from one memory to another, which the tensors describe.
///
/// # Errors
/// Those of [`Problem::choose`](super::Problem::choose).
pub(crate) fn add_copy(
    plan: &mut Plan,
    (from, from_spec): (Operand, &TensorSpec),
    (to, to_spec): (Operand, &TensorSpec),
    planner: &Planner<'_>,
) -> Result<(), Error> {
    let map = copy_of(from_spec.dtype);
    let problem = map.problem(vec![from_spec.clone()], vec![to_spec.clone()]);
    plan.steps.extend(map.step(&problem, &problem.choose()?, [from], [to], planner));
    Ok(())
}

/// A tensor in C order: the operand itself if it is so already, else scratch memory that a copy
/// fills.
///
/// # Errors
/// Those of [`add_copy`].
pub(crate) fn add_contiguous(
    plan: &mut Plan,
    (operand, spec): (Operand, &TensorSpec),
    planner: &Planner<'_>,
) -> Result<(Operand, TensorSpec), Error> {
    if spec.layout.is_contiguous() {
        return Ok((operand, spec.clone()));
    }
    let copied = TensorSpec::contiguous(spec.dtype, spec.layout.shape())?;
    let scratch = plan.add_scratch(copied.bytes());
    add_copy(plan, (operand, spec), (scratch, &copied), planner)?;
    Ok((scratch, copied))
}
