//! Folds of segments: a ragged axis, cut by offsets in device memory, each segment folded
//! separately, in one launch (CUB: segmented reduction).
//!
//! Segment `s` has the items from `offsets[s]` to before `offsets[s + 1]`; offsets ascend. Items
//! before the first and after the last offset belong to no segment; what an offset says beyond the
//! end is cut off. A segment without items gives the identity. Positions count from the start of
//! the segment.
//!
//! **Who folds.** A choice knows the number of segments and of items, not their sizes, so the
//! kernel sorts segments as it meets them: a few lanes take a short one (as many as the average
//! asks for), a warp one that is longer, the block one longer still. Segments beyond `PART` items
//! are cut into as many parts of one size as there are whole `PART`s in them, for blocks of their
//! own. The whole is cut into ranges of `PART` items; the first items of ranges that a segment
//! holds stand for its parts, so that one search for each range finds them all. The block that
//! comes last folds the parts of a segment.
//!
//! **Order.** Fixed by the choice and the segment's own length: not by timing, nor by the sizes of
//! other segments or where it begins.

mod choice;
mod kernel;

use warpfold_device::Profile;

pub(crate) use choice::SegmentsChoice;
use kernel::SegmentArgs;
pub(crate) use kernel::SegmentsAlgorithm;

use super::Fold;
use super::family::add_workspace;
use crate::Shipped;
use crate::plan::{Family, Key, Operand, OperandSpec, Plan, Planned, Planner, Step, TensorSpec};
use crate::reductions::{self, Options, Reduction};
use crate::{Dtype, Error};

/// The family of segmented folds: a fold of each segment of its inputs.
///
/// A launch takes the inputs of the fold, then the offsets. Results lie side by side in the order
/// of the segments.
#[derive(Debug, Clone, Copy)]
pub struct SegmentedFold<'a>(pub &'a Fold);

/// What is folded: segments of tensors of one dimension and one size.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SegmentsProblem {
    fold: Key,
    inputs: Vec<TensorSpec>,
    offsets: Dtype,
    num_segments: u64,
}

impl SegmentedFold<'_> {
    /// The fold of `num_segments` segments. Offsets are of type `offsets`, [`Dtype::I32`] or
    /// [`Dtype::I64`], one more than there are segments.
    ///
    /// # Panics
    /// If there is not one tensor of the fold's type for each input.
    #[must_use]
    pub fn problem(&self, inputs: Vec<TensorSpec>, offsets: Dtype, num_segments: usize) -> SegmentsProblem {
        self.0.definition.expect_inputs(&inputs);
        // Elements are loaded one by one, whatever the alignment.
        let inputs = inputs.into_iter().map(|spec| TensorSpec::new(spec.dtype, spec.layout, spec.dtype.bytes()));
        let (fold, num_segments) = (self.0.definition.key.clone(), num_segments as u64);
        SegmentsProblem { fold, inputs: inputs.collect(), offsets, num_segments }
    }

    /// Chooses kernel and launch by the rules.
    ///
    /// # Errors
    /// [`Operand`](crate::ErrorKind::Operand) for a tensor of another rank or other offsets,
    /// [`TooLarge`](crate::ErrorKind::TooLarge).
    pub fn choose(&self, problem: &SegmentsProblem) -> Result<SegmentsChoice, Error> {
        choice::choose(&*self.0.definition.monoid, problem)
    }

    /// The plan of a choice: one launch, or none if there are no segments.
    ///
    /// # Panics
    /// For the problem of another fold.
    #[must_use]
    pub fn plan_with(&self, problem: &SegmentsProblem, choice: &SegmentsChoice, planner: &Planner<'_>) -> Plan {
        let SegmentsProblem { fold, inputs, offsets, num_segments } = problem;
        let definition = &self.0.definition;
        assert_eq!(*fold, definition.key, "a fold plans its own problems");
        let bytes = (num_segments + 1) * offsets.bytes();
        let mut plan = definition
            .plan("fold of segments", inputs, &definition.sizes_of(*num_segments))
            .input(OperandSpec::new("the offsets", bytes, offsets.bytes()))
            .choice(format_args!("{:?}", choice.algorithm));
        let Some(launch) = choice.launch_on(planner.limits) else { return plan };
        let config = (fold.clone(), choice.algorithm.clone());
        let kernel = planner.kernel(config, |(_, algorithm)| kernel::kernel_of(definition, algorithm));
        let offset_list = Operand::Input(inputs.len());
        let (inputs, outputs) = definition.operands();
        let (workspace, tickets) = add_workspace(&mut plan, choice.workspace_words, choice.tickets);
        let args = SegmentArgs::<Planned> {
            inputs,
            outputs,
            workspace,
            tickets,
            offsets: offset_list,
            segments: *num_segments,
            len: choice.len,
            helpers: choice.helpers,
            item_steps: choice.strides,
        };
        plan.step(Step::new(kernel, launch).with(args).expect("addresses and numbers fit"))
    }
}

impl Family for SegmentedFold<'_> {
    type Problem = SegmentsProblem;

    fn plan(&self, problem: &SegmentsProblem, planner: &Planner<'_>) -> Result<Plan, Error> {
        Ok(self.plan_with(problem, &self.choose(problem)?, planner))
    }
}

/// Kernels of every kind, each of another type, for the list of all kernels.
pub(crate) fn kernels() -> Vec<Shipped> {
    let cases = [
        (Reduction::Sum, Dtype::F32, Dtype::I32, 1 << 20, 1 << 19),
        (Reduction::Sum, Dtype::I8, Dtype::I64, 1 << 20, 1 << 16),
        (Reduction::ArgMax, Dtype::Bf16, Dtype::I64, 1 << 20, 100),
        (Reduction::LogSumExp, Dtype::F32, Dtype::I32, 1000, 100),
    ];
    let kernel = |(reduction, dtype, offsets, len, num_segments)| {
        let fold = reductions::fold_of(reduction, &[dtype], Options::default()).expect("the type is supported");
        let row = TensorSpec::contiguous(dtype, &[len]).expect("one dimension");
        let family = SegmentedFold(&fold);
        Shipped::planned(&family, &family.problem(vec![row], offsets, num_segments), Profile::H200)
    };
    cases.map(kernel).into()
}
