//! Products with a gate: `activation(gate) · up`, as the MLPs of language models have it.
//!
//! Columns come in groups of eight, of the gate and of what it multiplies in turns. So a thread of
//! a warpgroup, which has pairs of columns of every group, holds both of a result, and the epilogue
//! multiplies them (`wgmma/store.rs`). Where the factors do not suit WGMMA a launch of its own
//! reads the product. Both round gate and `up` to the type of the result before, so that the bits
//! are those of a product, an activation and a multiplication.

use half::{bf16, f16};
use warpfold_device::LaunchConfig;
use warpfold_lang::{Global, Val, block_idx, kernel, thread_idx, wait_for_dependencies, when};

use super::accumulator::Accumulator;
use super::epilogue::{Activation, Epilogue};
use super::problem::{Matrix, Problem};
use crate::elements::{load, store};
use crate::plan::{Arg, Operand, Plan, Planner, Step, grid_size, within_limit};
use crate::{AnyKernel, Dtype, Error};

/// Columns of a group.
pub(super) const COLUMNS: u32 = 8;

/// Threads of a block.
const BLOCK: u32 = 256;

/// How two sums become one result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Gate {
    pub(super) activation: Activation,
    /// The type of the result, which both are rounded to before.
    pub(super) dtype: Dtype,
}

impl Gate {
    /// The result of a gate and what it multiplies.
    pub(super) fn apply<A: Accumulator>(self, gate: Val<A>, up: Val<A>) -> Val<A> {
        A::activate(self.activation, self.rounded(gate)) * self.rounded(up)
    }

    fn rounded<A: Accumulator>(self, sum: Val<A>) -> Val<A> {
        match self.dtype {
            Dtype::F16 => sum.cast::<f16>().cast(),
            Dtype::Bf16 => sum.cast::<bf16>().cast(),
            _ => sum,
        }
    }
}

/// Adds a product whose columns go to scratch memory, and the launch that reads them.
pub(super) fn plan_apart(
    plan: &mut Plan,
    problem: &Problem,
    gate: Gate,
    planner: &Planner<'_>,
    product: impl FnOnce(&Problem) -> Result<Plan, Error>,
) -> Result<(), Error> {
    let Problem { m, n, .. } = *problem;
    let inner = Problem { c: Matrix::rows(gate.dtype, n), epilogue: Epilogue::new(), ..problem.clone() };
    let product = product(&inner)?;
    plan.choice = format!("{}; then the gate", product.choice);
    let pairs = plan.add_scratch(m * n * gate.dtype.bytes());
    plan.append(product, &[(Operand::Input(0), 0), (Operand::Input(1), 0)], &[(pairs, 0)]);
    // THRESHOLD: more results are refused; tested by
    // crates/kernels/tests/parts/plans.rs::results_of_a_gate_are_counted_in_32_bits
    let results = within_limit("the results of a gate", m * n / 2)?;
    if results > 0 {
        let launch = LaunchConfig::new(grid_size(u64::from(results).div_ceil(BLOCK.into()))?, BLOCK);
        let step = Step::new(planner.kernel(gate, kernel_of), launch).arg(pairs).arg(Operand::Output(0));
        plan.steps
            .push(step.arg(Arg::value(results)).arg(Arg::value(n as u32 / 2)).arg(Arg::value(problem.c.row_stride)));
    }
    Ok(())
}

/// A thread takes a result.
pub(super) fn kernel_of(gate: &Gate) -> AnyKernel {
    let gate = *gate;
    let Gate { activation, dtype } = gate;
    let name = format!("matmul_gate_{}_{dtype}", activation.name().replace('-', "_"));
    let body = move |pairs: Global<u8>, to: Global<u8>, results: Val<u32>, columns: Val<u32>, row_stride: Val<i64>| {
        wait_for_dependencies();
        let i = block_idx().x * BLOCK + thread_idx().x;
        when(i.lt(results), || {
            let (row, column) = (i / columns, i % columns);
            // Of the gate's element: all groups before it have another one beside them.
            let first = (i + i - column - column) + (column / COLUMNS) * (2 * COLUMNS) + column % COLUMNS;
            let bytes = dtype.bytes() as u32;
            let at = |column: Val<u32>| {
                let place = pairs.at(column.cast::<i64>() * i64::from(bytes));
                load::<f32, _>(dtype, place, 1, false)[0]
            };
            let result = f32::activate(activation, at(first)) * at(first + COLUMNS);
            let place = row.cast::<i64>() * row_stride + column.cast::<i64>();
            store(dtype, to.at(place * i64::from(bytes)), &[result], false);
        });
    };
    kernel(name, body).required_block(BLOCK).into()
}
