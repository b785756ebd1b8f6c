//! A copy of a strided tensor to scratch memory, element by element.

use crate::elements::{Sink, Source};
use crate::layout::Layout;
use crate::map::{Map, Shape};
use crate::plan::{Arg, Operand, OperandSpec, Plan, Planner, Step};
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
    let copy = copy(*dtype, [from, to], alignment, planner)?;
    plan.append(copy, &[(*operand, first)], &[(scratch, 0)]);
    Ok(scratch)
}

/// The plan of a copy from one layout to another of the same shape.
fn copy(dtype: Dtype, [from, to]: [&Layout; 2], alignment: u64, planner: &Planner<'_>) -> Result<Plan, Error> {
    #[derive(Debug, Clone, PartialEq, Eq, Hash)]
    struct Copy(Dtype, Shape);

    // Unsigned integers of the same size: nothing is rounded, and every NaN stays what it is.
    let bits = match dtype.bytes() {
        1 => Dtype::U8,
        2 => Dtype::U16,
        4 => Dtype::U32,
        _ => Dtype::U64,
    };
    let addresses = [alignment, SCRATCH_ALIGNMENT];
    let name = format!("copy_{bits}");
    let (map, kernel) = match bits {
        Dtype::U64 => {
            let map = Map::new(name, Source::one::<u64>(bits), Sink::one::<u64>(bits));
            let map_plan = map.plan(&[from], &[to], &addresses)?;
            let kernel = planner.kernel(Copy(bits, map_plan.shape.clone()), |_| map.kernel(&map_plan));
            (map_plan, kernel)
        }
        _ => {
            let map = Map::new(name, Source::one::<u32>(bits), Sink::one::<u32>(bits));
            let map_plan = map.plan(&[from], &[to], &addresses)?;
            let kernel = planner.kernel(Copy(bits, map_plan.shape.clone()), |_| map.kernel(&map_plan));
            (map_plan, kernel)
        }
    };
    let mut plan =
        Plan::new("repack").input(OperandSpec::new("the tensor", 0, 1)).output(OperandSpec::new("the scratch", 0, 1));
    if let Some(config) = map.launch {
        let step = Step::new(kernel, config).operands([Operand::Input(0)], 3).operands([Operand::Output(0)], 2);
        plan.steps.push(step.arg(Arg::words(&map.words())));
    }
    Ok(plan)
}
