//! From a choice to steps: a repack where images and filters need one, then the convolution.

use half::{bf16, f16};

use super::args::args_of;
use super::choice::{Algorithm, Choice};
use super::direct::{self, direct};
use super::implicit::{self, implicit};
use super::mma::{self, mma};
use super::patches::{self, patches};
use super::planes::{self, planes};
use super::problem::Problem;
use super::wgmma;
use crate::plan::{Family, Operand, OperandSpec, Plan, Planner, Step};
use crate::{AnyKernel, Dtype, Error};

/// The family of convolutions. Inputs are images, filters and what the epilogue reads: a bias, and
/// what is as large as the result; the output is the result. All are without gaps and begin at
/// multiples of 16 bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Conv;

/// A kernel of this folder.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Kernel {
    Direct(Dtype, direct::DirectConfig),
    Implicit(Dtype, implicit::ImplicitConfig),
    Planes(planes::PlanesConfig),
    Patches(patches::PatchesConfig),
    Mma(mma::MmaConvConfig),
}

fn make(kernel: &Kernel) -> AnyKernel {
    match kernel {
        Kernel::Direct(Dtype::F64, config) => direct::<f64>(config).into(),
        Kernel::Direct(_, config) => direct::<f32>(config).into(),
        Kernel::Implicit(Dtype::F64, config) => implicit::<f64>(config).into(),
        Kernel::Implicit(_, config) => implicit::<f32>(config).into(),
        Kernel::Planes(config) => planes(config).into(),
        Kernel::Patches(config) => patches(config).into(),
        Kernel::Mma(config) => match config.dtype {
            Dtype::F16 => mma::<f16>(config).into(),
            Dtype::Bf16 => mma::<bf16>(config).into(),
            _ => mma::<f32>(config).into(),
        },
    }
}

impl Family for Conv {
    type Problem = Problem;

    fn plan(&self, problem: &Problem, planner: &Planner<'_>) -> Result<Plan, Error> {
        let choice = Choice::new(problem.clone(), planner.target.arch, planner.limits)?;
        Ok(self.plan_with(&choice, planner))
    }
}

impl Conv {
    /// As [`Family::plan`], by a choice that was made before.
    #[must_use]
    pub fn plan_with(&self, choice: &Choice, planner: &Planner<'_>) -> Plan {
        let problem = &choice.problem;
        let (mut plan, inputs) = operands(problem);
        plan.choice = choice.to_string();
        let Some(config) = choice.launch() else { return plan };
        let tensors = [0, 1].map(Operand::Input);
        let [images, filters] = match choice.repack() {
            Some(repack) => repack.add_to(&mut plan, tensors, planner),
            None => tensors,
        };
        let product = choice.product();
        let accumulator = problem.accumulator();
        let kernel = match choice.algorithm {
            Algorithm::Wgmma(tile) => {
                let step = wgmma::step(problem, tile, config, [images, filters], &inputs, planner);
                return plan.step(step.expect("the problem was checked"));
            }
            Algorithm::Direct => Kernel::Direct(accumulator, choice.direct()),
            Algorithm::Implicit(tile) => Kernel::Implicit(accumulator, choice.implicit(tile)),
            Algorithm::Patches(tile) => Kernel::Patches(choice.patches(tile)),
            Algorithm::Mma(tile) => Kernel::Mma(mma::config(problem, tile, choice.epilogue_key())),
            Algorithm::Planes(tile) => Kernel::Planes(choice.planes(tile)),
        };
        let args = args_of(problem, &product, [images, filters], &inputs);
        let step = Step::new(planner.kernel(kernel, make), config).with(args);
        plan.step(step.expect("the problem was checked"))
    }
}

/// A plan without launches, and what the epilogue reads.
fn operands(problem: &Problem) -> (Plan, Vec<Operand>) {
    let Problem { dtype, result, images, channels, size: [height, width], filters, .. } = *problem;
    let results = problem.num_results();
    let spec = |name, elements: u64, dtype: Dtype| OperandSpec::new(name, elements * dtype.bytes(), 16);
    let mut plan = Plan::new("conv2d")
        .input(spec("the images", images * channels * height * width, dtype))
        .input(spec("the filters", filters * problem.depth(), dtype))
        .output(spec("the result", results, result));
    let num_inputs = problem.epilogue.num_inputs();
    for elements in [filters, results].into_iter().take(num_inputs) {
        plan = plan.input(spec("an input", elements, result));
    }
    (plan, (2..2 + num_inputs).map(Operand::Input).collect())
}
