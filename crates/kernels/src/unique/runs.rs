//! The runs of equal rows in an order that has them side by side: unique values with the position
//! of the first of each, their counts, and which of them each row is.

use warpfold_device::LaunchConfig;
use warpfold_lang::{Global, Val, block_idx, kernel, range, thread_idx, var, wait_for_dependencies, when};

use super::kernel::keys;
use super::{BLOCK, Problem};
use crate::elements::{Place, Run};
use crate::fold::{Cumulative, ScanOrder};
use crate::plan::{Arg, Family, Operand, OperandSpec, Plan, Planner, Step, TensorSpec, grid_size};
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
        let mut plan = Plan::new("unique")
            .input(OperandSpec::new("the rows", rows * row_len * dtype.bytes(), dtype.bytes()))
            .input(list("the order"))
            .output(list("the runs of the rows"))
            .output(list("the first rows"))
            .output(list("the counts"))
            .output(OperandSpec::new("how many runs there are", 8, 8))
            .choice(format_args!("{rows} rows of {row_len}"));
        let number = Operand::Output(3);
        if rows == 0 {
            return Ok(plan.fill(number, 8, 0));
        }
        let [order, runs, firsts, counts] =
            [Operand::Input(1), Operand::Output(0), Operand::Output(1), Operand::Output(2)];
        let [heads, sums, starts] = [4, 8, 8].map(|bytes| plan.add_scratch(rows * bytes));
        let launch = LaunchConfig::new(grid_size(rows.div_ceil(BLOCK.into()))?, BLOCK);
        let step = |part, operands: &[Operand]| {
            let step = Step::new(planner.kernel(part, kernel_of), launch);
            step.operands(operands.iter().copied(), operands.len()).arg(Arg::value(rows))
        };
        let step_of_heads = step(Part::Heads(dtype), &[Operand::Input(0), order, heads]);
        plan.steps.push(step_of_heads.arg(Arg::value(row_len)));
        let scan = crate::fold::scan_of(Cumulative::Sum, Dtype::I32, Some(Dtype::I64))?;
        let spec = |dtype| TensorSpec::contiguous(dtype, &[rows as usize]);
        let sum = scan.problem(vec![spec(Dtype::I32)?], vec![spec(Dtype::I64)?], 0, ScanOrder::default());
        plan.append(scan.plan(&sum, planner)?, &[(heads, 0)], &[(sums, 0)]);
        plan.steps.push(step(Part::Number, &[order, heads, sums, runs, firsts, starts, number]));
        plan.steps.push(step(Part::Count, &[starts, number, counts]));
        Ok(plan)
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
    let body = move |table: Global<u8>, order: Global<i64>, heads: Global<i32>, rows: Val<u64>, row_len: Val<u64>| {
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
    let body = |order: Global<i64>,
                heads: Global<i32>,
                sums: Global<i64>,
                runs: Global<i64>,
                firsts: Global<i64>,
                starts: Global<i64>,
                number: Global<i64>,
                rows: Val<u64>| {
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
    let body = |starts: Global<i64>, number: Global<i64>, counts: Global<i64>, rows: Val<u64>| {
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
