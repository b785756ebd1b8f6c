//! Low-rank adapters (LoRA): `up_a · down_a x` for rows `x` that each name an adapter `a`.
//!
//! The launches are those of a mixture of experts without its router: rows are grouped by their
//! adapters, and `dots` multiplies twice. So the bits of a row depend on that row and its adapter
//! alone. What is between the products, and the second one, are `f32`.

use warpfold_device::LaunchConfig;

use super::dots::{Dots, DotsArgs, DotsConfig, TILE};
use super::route::RouteArgs;
use super::{BLOCK, ExpertFormat, Gating, Kernel, Problem, Weights};
use crate::plan::{Family, Operand, OperandSpec, Plan, Planned, Planner, Step, grid_size, grid_size_y};
use crate::{Dtype, Error, ErrorKind};

/// The family of low-rank adapters. Inputs: rows `[rows, len]`, the adapter of each row `[rows]` of
/// 32 bits, matrices `[adapters, rank, len]` in the rows' type, and `[adapters, columns, rank]` of
/// `f32`. Output: `[rows, columns]` of `f32`, where rows without an adapter (whose number is no
/// adapter's) are left as they are.
#[derive(Debug, Clone, Copy, Default)]
pub struct Adapters;

/// How many of everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AdaptersProblem {
    /// The type of rows and of the first matrices: `f32`, `f16` or `bf16`.
    pub dtype: Dtype,
    /// Rows.
    pub rows: u64,
    /// Elements of a row.
    pub len: u64,
    /// Elements of a row between the products.
    pub rank: u64,
    /// Elements of a row of the result.
    pub columns: u64,
    /// Adapters.
    pub adapters: u64,
    /// A power of two that all addresses are multiples of, in bytes.
    pub alignment: u64,
}

impl Family for Adapters {
    type Problem = AdaptersProblem;

    fn plan(&self, problem: &AdaptersProblem, planner: &Planner<'_>) -> Result<Plan, Error> {
        let AdaptersProblem { dtype, rows, len, rank, columns, adapters, alignment } = *problem;
        if !matches!(dtype, Dtype::F32 | Dtype::F16 | Dtype::Bf16) {
            return Err(ErrorKind::Unsupported { op: "adapters".to_owned(), dtype }.into());
        }
        if let Some(size) = [rows, len, rank, columns, adapters].into_iter().find(|size| *size > 1 << 30) {
            return Err(ErrorKind::TooLarge { what: "adapters", size, limit: 1 << 30 }.into());
        }
        let mut plan = Plan::new("adapters").choice(format_args!("{adapters} adapters of rank {rank}"));
        let mut read =
            |name, elements: u64, bytes: u64| plan.add_input(OperandSpec::new(name, elements * bytes, bytes));
        let x = read("the rows", rows * len, dtype.bytes());
        let ids = read("the adapters of rows", rows, 4);
        let down = read("the first matrices", adapters * rank * len, dtype.bytes());
        let up = read("the second matrices", adapters * columns * rank, 4);
        let output = plan.add_output(OperandSpec::new("the results", rows * columns * 4, 4));
        if [rows, len, rank, columns, adapters].contains(&0) {
            return Ok(plan);
        }
        let order = plan.add_scratch(4 * rows);
        let starts = plan.add_scratch(4 * (adapters + 2));
        let between = plan.add_scratch(4 * rows * rank);
        // One more than there are: where it would begin, the rows of the last adapter end.
        let args = RouteArgs::<Planned> {
            logits: ids,
            ids,
            shares: order,
            order,
            starts,
            rows: rows as u32,
            experts: adapters as u32 + 1,
            chosen: 1,
            first: 0,
        };
        let kernel = planner.kernel(Kernel::Group, Kernel::make);
        plan.steps.push(Step::new(kernel, LaunchConfig::new(grid_size(adapters + 1)?, 32)).with(args)?);
        let tiles = grid_size((rows / u64::from(TILE) + adapters.min(rows)).max(1))?;
        let mut multiply = |dtype: Dtype, [x, weights, results]: [Operand; 3], columns: u64, len: u64| {
            // Its other sizes are of no account here.
            let neighbours = Problem {
                dtype,
                rows,
                hidden: len,
                inner: columns,
                experts: adapters,
                first: 0,
                own: adapters,
                sums: false,
                chosen: 1,
                weights: Weights::Share,
                gating: Gating::Silu,
                format: ExpertFormat::Plain,
                packed: false,
                alignment,
            };
            let config = DotsConfig {
                dtype,
                dots: Dots::Down,
                gating: Gating::Silu,
                format: ExpertFormat::Plain,
                width: neighbours.width(len),
            };
            let across = grid_size_y(columns.div_ceil(config.columns().into()).max(1))?;
            let args = DotsArgs::<Planned> {
                scales: None,
                bias: None,
                x,
                weights,
                results,
                order,
                starts,
                experts: adapters as u32,
                chosen: 1,
                columns: columns as u32,
                len: len as u32,
            };
            let kernel = planner.kernel(Kernel::Dots(config), Kernel::make);
            plan.steps.push(Step::new(kernel, LaunchConfig::new((tiles, across), BLOCK)).with(args)?);
            Ok::<_, Error>(())
        };
        multiply(dtype, [x, down, between], rank, len)?;
        multiply(Dtype::F32, [between, up, output], columns, rank)?;
        Ok(plan)
    }
}
