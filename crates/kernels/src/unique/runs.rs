//! The runs of equal rows in an order that has them side by side: unique values with the position
//! of the first of each, their counts, and which of them each row is.

use warpfold_device::LaunchConfig;
use warpfold_lang::{Global, Val, block_idx, kernel, params, range, thread_idx, var, wait_for_dependencies, when};

use super::kernel::keys;
use super::{BLOCK, Problem};
use crate::elements::{Place, Run};
use crate::fold::{Cumulative, ScanOrder};
use crate::plan::{Family, OperandSpec, Plan, Planned, Planner, Step, TensorSpec, grid_size};
use crate::{AnyKernel, Dtype, Error};

/// The family of runs of equal rows. Inputs are rows and the order that sorts them, as `i64`
/// positions; outputs, all `i64`, one for each row: the number of the run that it belongs to, then
/// for each run the position of its first row and its count, and one word: how many runs there are.
#[derive(Debug, Clone, Copy, Default)]
pub struct Runs;

/// What a kernel does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Part {
    /// 1 for each row that differs from the one before it in the order.
    Heads(Dtype),
    /// Numbers and first positions.
    Number,
    /// From the beginnings of runs to their counts.
    Count,
}

impl Family for Runs {
    type Problem = Problem;

    fn plan(&self, problem: &Problem, planner: &Planner<'_>) -> Result<Plan, Error> {
        let Problem { dtype, rows, row_len } = *problem;
        let list = |name| OperandSpec::new(name, rows * 8, 8);
        let mut plan = Plan::new("unique").choice(format_args!("{rows} rows of {row_len}"));
        let table = OperandSpec::new("the rows", rows * row_len * dtype.bytes(), dtype.bytes());
        let (table, order) = (plan.add_input(table), plan.add_input(list("the order")));
        let [runs, firsts, counts] =
            ["the runs of the rows", "the first rows", "the counts"].map(|name| plan.add_output(list(name)));
        let number = plan.add_output(OperandSpec::new("how many runs there are", 8, 8));
        if rows == 0 {
            return Ok(plan.fill(number, 8, 0));
        }
        let [heads, sums, starts] = [4, 8, 8].map(|bytes| plan.add_scratch(rows * bytes));
        let args =
            RunArgs::<Planned> { table, order, heads, sums, runs, firsts, starts, number, counts, rows, row_len };
        let launch = LaunchConfig::new(grid_size(rows.div_ceil(BLOCK.into()))?, BLOCK);
        let step = |part| Step::new(planner.kernel(part, kernel_of), launch).with(args);
        plan.steps.push(step(Part::Heads(dtype))?);
        let scan = crate::fold::scan_of(Cumulative::Sum, Dtype::I32, Some(Dtype::I64))?;
        let spec = |dtype| TensorSpec::contiguous(dtype, &[rows as usize]);
        let sum = scan.problem(vec![spec(Dtype::I32)?], vec![spec(Dtype::I64)?], 0, ScanOrder::default());
        plan.append(scan.plan(&sum, planner)?, &[(heads, 0)], &[(sums, 0)]);
        plan.steps.extend([step(Part::Number)?, step(Part::Count)?]);
        Ok(plan)
    }
}

params! {
    /// Parameters of the kernels.
    struct RunArgs {
        table: Global<u8>, order: Global<i64>,
        /// 1 for each row in the order that begins a run, and their sums.
        heads: Global<i32>, sums: Global<i64>,
        /// The run of each row.
        runs: Global<i64>,
        /// For each run its first row, where it begins in the order, and its count.
        firsts: Global<i64>, starts: Global<i64>, counts: Global<i64>, number: Global<i64>,
        rows: u64, row_len: u64,
    }
}

fn kernel_of(part: &Part) -> AnyKernel {
    match *part {
        Part::Heads(dtype) => heads(dtype),
        Part::Number => number(),
        Part::Count => count(),
    }
}

/// The thread's place in the grid.
fn place() -> Val<u64> {
    block_idx().x.cast::<u64>() * u64::from(BLOCK) + thread_idx().x.cast::<u64>()
}

fn heads(dtype: Dtype) -> AnyKernel {
    let keys = keys(dtype);
    let body = move |args: RunArgs| {
        let RunArgs { table, order, heads, rows, row_len, .. } = args;
        wait_for_dependencies();
        let i = place();
        when(i.lt(rows), || {
            let is_first = i.eq(0);
            let before = is_first.select(i, i - 1);
            let row = |i: Val<u64>| order.at(i).get().bitcast::<u64>() * row_len;
            let (mine, other) = (row(i), row(before));
            let differs = var(is_first.cast::<i32>());
            range(0_u64, row_len, 1_u64, |column| {
                let key = |row: Val<u64>| {
                    let pointer = table.at((row + column) * dtype.bytes());
                    keys.load(&[Place { pointer, run: Run::Narrow }], 1)[0]
                };
                let differ = key(mine).ne(key(other)).cast::<i32>();
                differs.update(|differs| differs | differ);
            });
            heads.at(i).set(differs);
        });
    };
    kernel(format!("unique_heads_{dtype}"), body).required_block(BLOCK).into()
}

fn number() -> AnyKernel {
    let body = |args: RunArgs| {
        let RunArgs { order, heads, sums, runs, firsts, starts, number, rows, .. } = args;
        wait_for_dependencies();
        let i = place();
        when(i.lt(rows), || {
            let (row, sum) = (order.at(i).get(), sums.at(i).get());
            let run = sum - 1;
            runs.at(row).set(run);
            when(heads.at(i).get().ne(0), || {
                firsts.at(run).set(row);
                starts.at(run).set(i.bitcast::<i64>());
            });
            when((i + 1).eq(rows), || number.set(sum));
        });
    };
    kernel("unique_number", body).required_block(BLOCK).into()
}

fn count() -> AnyKernel {
    let body = |args: RunArgs| {
        let RunArgs { starts, number, counts, rows, .. } = args;
        wait_for_dependencies();
        let (run, number) = (place().bitcast::<i64>(), number.get());
        when(run.lt(number), || {
            let next = starts.at(run + 1).get_or(rows.bitcast::<i64>(), (run + 1).lt(number));
            counts.at(run).set(next - starts.at(run).get());
        });
    };
    kernel("unique_count", body).required_block(BLOCK).into()
}

/// Kernels as they ship, to be assembled and compared.
pub(super) fn kernels() -> Vec<AnyKernel> {
    [Part::Heads(Dtype::F32), Part::Number, Part::Count].iter().map(kernel_of).collect()
}
