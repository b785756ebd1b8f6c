//! A copy of a strided tensor to scratch memory, element by element.

use crate::layout::Layout;
use crate::map::copy_of;
use crate::plan::{Family, Operand, Plan, Planner, TensorSpec};
use crate::{Dtype, Error};

/// What scratch memory begins at a multiple of, in bytes: at least.
const SCRATCH_ALIGNMENT: u64 = 16;

/// A tensor, and how it shall lie.
#[derive(Debug)]
pub(crate) struct Strided {
    pub(crate) dtype: Dtype,
    /// The tensor's memory.
    pub(crate) operand: Operand,
    /// The position of its first element there.
    pub(crate) first: u64,
    /// What the memory begins at a multiple of, in bytes.
    pub(crate) alignment: u64,
    pub(crate) from: Layout,
    /// In scratch memory, forwards from its beginning on.
    pub(crate) to: Layout,
}

/// Adds the copy to a plan, and gives the scratch memory.
pub(crate) fn strided(plan: &mut Plan, planner: &Planner<'_>, tensor: &Strided) -> Result<Operand, Error> {
    let Strided { dtype, operand, first, alignment, from, to } = tensor;
    let last = to.shape().iter().zip(to.strides()).map(|(size, stride)| size.saturating_sub(1) * stride.unsigned_abs());
    let scratch = plan.add_scratch((last.sum::<usize>() as u64 + 1) * dtype.bytes());
    let first = first * dtype.bytes();
    // Of the first element's address no more is known.
    let alignment = 1 << (first | alignment).trailing_zeros();
    let copy = copy_of(*dtype);
    let from = TensorSpec::new(*dtype, from.clone(), alignment);
    let to = TensorSpec::new(*dtype, to.clone(), SCRATCH_ALIGNMENT);
    let copied = copy.plan(&copy.problem(vec![from], vec![to]), planner)?;
    plan.append(copied, &[(*operand, first)], &[(scratch, 0)]);
    Ok(scratch)
}
