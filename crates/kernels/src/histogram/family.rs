//! From a choice to steps: counts are cleared, then one launch counts.

use super::choice::{Algorithm, Choice, Problem};
use super::{copies, global};
use crate::plan::{Arg, Family, Operand, OperandSpec, Plan, Planner, Step};
use crate::{AnyKernel, Dtype, Error, ErrorKind};

/// The family of histograms. Its input are the values, its output the counts, an `i32` for each
/// bin.
#[derive(Debug, Clone, Copy, Default)]
pub struct Histogram;

/// What decides on the code of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct HistogramConfig {
    value_bytes: u64,
    block: u32,
    algorithm: Algorithm,
}

fn make(config: &HistogramConfig) -> AnyKernel {
    let HistogramConfig { value_bytes, block, algorithm } = *config;
    match (value_bytes, algorithm) {
        (1, Algorithm::Global) => global::<u8>(block).into(),
        (2, Algorithm::Global) => global::<u16>(block).into(),
        (4, Algorithm::Global) => global::<u32>(block).into(),
        (_, Algorithm::Global) => global::<u64>(block).into(),
        (1, Algorithm::Copies(num)) => copies::<u8>(block, num).into(),
        (2, Algorithm::Copies(num)) => copies::<u16>(block, num).into(),
        (4, Algorithm::Copies(num)) => copies::<u32>(block, num).into(),
        (_, Algorithm::Copies(num)) => copies::<u64>(block, num).into(),
    }
}

impl Family for Histogram {
    type Problem = Problem;

    fn plan(&self, problem: &Problem, planner: &Planner<'_>) -> Result<Plan, Error> {
        let choice = Choice::new(*problem, planner.limits)?;
        let Problem { dtype, len, bins } = *problem;
        let bytes = len.checked_mul(dtype.bytes());
        let bytes =
            bytes.ok_or(ErrorKind::TooLarge { what: "a histogram's values", size: len, limit: u64::MAX / 8 })?;
        let counts_bytes = bins * Dtype::I32.bytes();
        let mut plan = Plan::new("histogram")
            .input(OperandSpec::new("values", bytes, dtype.bytes()))
            .output(OperandSpec::new("counts", counts_bytes, Dtype::I32.bytes()))
            .fill(Operand::Output(0), counts_bytes, 0)
            .choice(choice);
        if let Some(config) = choice.launch {
            let block = config.block[0];
            plan.bytes_in_flight = Some(super::walk::bytes_under_way(block));
            let kernel = HistogramConfig { value_bytes: dtype.bytes(), block, algorithm: choice.algorithm };
            let step = Step::new(planner.kernel(kernel, make), config);
            let step = step.arg(Operand::Input(0)).arg(Operand::Output(0));
            plan.steps.push(step.arg(Arg::value(len)).arg(Arg::value(choice.limit)));
        }
        Ok(plan)
    }
}
