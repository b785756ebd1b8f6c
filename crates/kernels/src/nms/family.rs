//! From a choice to launches: one that sorts, then two for each part.

use warpfold_device::LaunchConfig;

use super::rank::BOXES;
use super::{Choice, GROUP, NmsArgs, overlaps, rank, sweep};
use crate::plan::{Family, OperandSpec, Plan, Planned, Planner, Step};
use crate::{AnyKernel, Error, ErrorKind};

/// The family of non-maximum suppressions. Inputs are `N` boxes of four `f32` and `N` scores,
/// outputs room for `N` indices of `i64` and their number, an `i64`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Nms;

/// What is suppressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Problem {
    /// Boxes.
    pub num_boxes: u64,
    /// The bits of the threshold, an `f32`.
    pub threshold_bits: u32,
}

impl Problem {
    /// So many boxes with a threshold for their overlap.
    #[must_use]
    pub const fn new(num_boxes: u64, threshold: f32) -> Self {
        Self { num_boxes, threshold_bits: threshold.to_bits() }
    }
}

/// One of the kernels, by what it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Part {
    Rank,
    Overlaps,
    Sweep,
}

fn make(part: &Part) -> AnyKernel {
    match part {
        Part::Rank => rank(),
        Part::Overlaps => overlaps(),
        Part::Sweep => sweep(),
    }
}

impl Family for Nms {
    type Problem = Problem;

    fn plan(&self, problem: &Problem, planner: &Planner<'_>) -> Result<Plan, Error> {
        self.plan_with(problem, Choice::new(problem.num_boxes)?, planner)
    }
}

impl Nms {
    /// As [`Family::plan`], in parts of another size.
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] for parts that are no multiple of 64 boxes.
    pub fn plan_with(&self, problem: &Problem, choice: Choice, planner: &Planner<'_>) -> Result<Plan, Error> {
        let Choice { num_boxes, part } = choice;
        if part == 0 || !part.is_multiple_of(GROUP) {
            let reason = format!("a part has a multiple of {GROUP} boxes, not {part}");
            return Err(ErrorKind::Operand { operator: "nms", reason }.into());
        }
        let bytes = u64::from(num_boxes);
        let mut plan = Plan::new("nms").choice(choice);
        let boxes = plan.add_input(OperandSpec::new("boxes", 16 * bytes, 4));
        let scores = plan.add_input(OperandSpec::new("scores", 4 * bytes, 4));
        let indices = plan.add_output(OperandSpec::new("indices", 8 * bytes, 8));
        let count = plan.add_output(OperandSpec::new("count", 8, 8));
        if num_boxes == 0 {
            return Ok(plan.fill(count, 8, 0));
        }
        let [sorted, order, suppressed, bits] = choice.scratch_words().map(|words| plan.add_scratch(8 * words));
        let num_words = choice.num_words();
        let args = |first: u32, end: u32| NmsArgs::<Planned> {
            boxes,
            scores,
            sorted,
            order,
            suppressed,
            bits,
            indices,
            count,
            num_boxes,
            num_words,
            first,
            end,
            threshold: f32::from_bits(problem.threshold_bits),
        };
        let rank = LaunchConfig::new(num_boxes.div_ceil(BOXES), rank::BLOCK);
        plan.steps.push(Step::new(planner.kernel(Part::Rank, make), rank).with(args(0, num_boxes))?);
        for (first, end) in choice.parts() {
            let overlaps = LaunchConfig::new((num_words - first / GROUP, (end - first).div_ceil(GROUP)), GROUP);
            for (part, launch) in [(Part::Overlaps, overlaps), (Part::Sweep, LaunchConfig::new(1, sweep::BLOCK))] {
                plan.steps.push(Step::new(planner.kernel(part, make), launch).with(args(first, end))?);
            }
        }
        Ok(plan)
    }
}
