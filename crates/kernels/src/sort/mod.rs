//! Rows in order: their elements sorted, and where each of them was.
//!
//! Contract: rows of any element type, side by side, of up to 2^30 elements; outputs are the sorted
//! elements and their positions in the row, as `i64`. The order is that of the values, ascending or
//! descending; equal elements (zeros of both signs are equal, and so are all NaN) keep their order,
//! and a NaN is above all numbers. So ascending is NumPy's stable `sort`, and descending begins as
//! [`TopK`](crate::fold::TopK) does.
//!
//! Elements go as pairs of key and position. A key is an unsigned integer in the order of the
//! elements; those of up to 32 bits share a word with the position.
//!
//! Rows of up to `LONG` elements are sorted by a bitonic network (Batcher, "Sorting networks and
//! their applications", 1968), which positions make stable. A block sorts `CHUNK` pairs in shared
//! memory: many short rows, or a part of a long one, whose parts are merged by steps in global
//! memory until they fit a block again. Longer rows are sorted digit by digit (`radix`), with three
//! launches for each. Both give the same. Start with [`Sort`].

mod kernel;
mod pair;
mod radix;

use warpfold_device::LaunchConfig;

use crate::fold::{Cumulative, Prefix, ScanOrder, scan_of};
use crate::plan::{Family, Operand, OperandSpec, Plan, Planned, Planner, Step, TensorSpec, grid_size};
use crate::{Dtype, Error, ErrorKind, Shipped};

use kernel::{BLOCK, CHUNK, SortArgs, SortConfig, Stage};
use radix::RadixArgs;

// THRESHOLD: longer rows are refused; tested by
// crates/kernels/tests/parts/plans.rs::rows_that_are_too_long_to_be_sorted_are_refused
/// Elements of a row at most.
const MAX_LEN: u64 = 1 << 30;

// THRESHOLD: more rows, of this length as powers of two, are refused; tested by
// crates/kernels/tests/parts/plans.rs::rows_that_are_too_long_to_be_sorted_are_refused
/// Places of all rows at most, of which a block takes 1,024.
const MAX_PLACES: u64 = 1 << 40;

// THRESHOLD: longer rows are sorted digit by digit; tested by
// crates/kernels/tests/parts/choices.rs::long_rows_are_sorted_digit_by_digit and
// crates/warpfold/tests/all/order.rs::long_rows_of_every_type_are_sorted_on_both_sides_of_the_bound
/// Elements of a row that a bitonic network sorts, at most: that of twice as many takes 15 launches
/// and moves pairs as often, four digits of `f32` 12 launches, of which 4 move pairs.
const LONG: u64 = 1 << 13;

/// The family of sorted rows. The input are the rows, outputs are the sorted rows and the positions
/// that their elements had.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sort;

/// Rows to be sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Problem {
    /// The type of the elements.
    pub dtype: Dtype,
    /// Rows.
    pub rows: u64,
    /// Elements of a row.
    pub len: u64,
    /// The largest first.
    pub descending: bool,
}

impl Family for Sort {
    type Problem = Problem;

    fn plan(&self, problem: &Problem, planner: &Planner<'_>) -> Result<Plan, Error> {
        let Problem { dtype, rows, len, descending } = *problem;
        if len > MAX_LEN {
            return Err(ErrorKind::TooLarge { what: "a row", size: len, limit: MAX_LEN }.into());
        }
        let padded = len.next_power_of_two().max(2);
        let all = rows.checked_mul(padded).filter(|all| *all <= MAX_PLACES);
        let all = all.ok_or(ErrorKind::TooLarge { what: "rows", size: rows, limit: MAX_PLACES / padded })?;
        let mut plan = Plan::new("sort");
        let bytes = rows * len * dtype.bytes();
        let input = plan.add_input(OperandSpec::new("the rows", bytes, dtype.bytes()));
        let sorted = plan.add_output(OperandSpec::new("the sorted rows", bytes, dtype.bytes()));
        let positions = plan.add_output(OperandSpec::new("the positions", rows * len * 8, 8));
        if len > LONG {
            return by_digits(plan, problem, [input, sorted, positions], planner);
        }
        plan = plan.choice(format_args!("{rows} bitonic networks of {padded}"));
        if rows * len == 0 {
            return Ok(plan);
        }
        let (chunk, is_long) = (u64::from(CHUNK), padded > u64::from(CHUNK));
        let keys = is_long.then(|| plan.add_scratch(all * 8));
        let key_positions = (is_long && dtype.bytes() == 8).then(|| plan.add_scratch(all * 4));
        let add = |plan: &mut Plan, stage: Stage, pairs: u64, sequence: u64, distance: u64| -> Result<(), Error> {
            let config = SortConfig { dtype, descending, stage };
            let blocks = grid_size(all.div_ceil(2).div_ceil(pairs))?;
            let args = SortArgs::<Planned> {
                rows: input,
                sorted,
                positions,
                keys,
                key_positions,
                num_rows: rows,
                len,
                padded,
                sequence: sequence as u32,
                distance: distance as u32,
            };
            let kernel = planner.kernel(config, kernel::kernel_of);
            plan.steps.push(Step::new(kernel, LaunchConfig::new(blocks, BLOCK)).with(args)?);
            Ok(())
        };
        let network = Stage::Rows { log_len: padded.min(chunk).ilog2(), is_part: is_long };
        add(&mut plan, network, chunk / 2, padded, 0)?;
        let mut sequence = 2 * chunk;
        while sequence <= padded {
            let mut distance = sequence / 2;
            while distance >= chunk {
                add(&mut plan, Stage::Distant, BLOCK.into(), sequence, distance)?;
                distance /= 2;
            }
            add(&mut plan, Stage::Merge { is_last: sequence == padded }, chunk / 2, sequence, 0)?;
            sequence *= 2;
        }
        Ok(plan)
    }
}

/// The launches that sort long rows digit by digit.
fn by_digits(
    plan: Plan,
    problem: &Problem,
    [input, sorted, positions]: [Operand; 3],
    planner: &Planner<'_>,
) -> Result<Plan, Error> {
    let Problem { dtype, rows, len, descending } = *problem;
    let (tiles, is_wide) = (len.div_ceil(radix::TILE.into()), dtype.bytes() == 8);
    let shifts: Vec<u32> = pair::key_bits(dtype).step_by(radix::DIGIT_BITS as usize).collect();
    let mut plan = plan.choice(format_args!("{} digits of {rows} rows in {tiles} tiles", shifts.len()));
    if rows == 0 {
        return Ok(plan);
    }
    let counts_of_row = u64::from(radix::RADIX) * tiles;
    let counts = [(); 2].map(|()| plan.add_scratch(rows * counts_of_row * 4));
    // A digit's pairs come from where the one before has put them.
    let buffers: Vec<(Operand, Option<Operand>)> = (1..shifts.len())
        .take(2)
        .map(|_| (plan.add_scratch(rows * len * 8), is_wide.then(|| plan.add_scratch(rows * len * 4))))
        .collect();
    let scan = scan_of(Cumulative::Sum, Dtype::U32, Some(Dtype::U32))?;
    let spec = || TensorSpec::contiguous(Dtype::U32, &[rows as usize, counts_of_row as usize]);
    let order = ScanOrder { prefix: Prefix::Exclusive, ..ScanOrder::default() };
    let sum = scan.problem(vec![spec()?], vec![spec()?], 1, order);
    let launch = LaunchConfig::new(grid_size(rows * tiles)?, radix::BLOCK);
    for (i, shift) in shifts.iter().enumerate() {
        let (is_first, is_last) = (i == 0, i + 1 == shifts.len());
        let pairs = |digit: usize, is_there: bool| is_there.then(|| buffers[digit % 2]).unzip();
        let ((keys, key_positions), (to_keys, to_positions)) = (pairs(i + 1, !is_first), pairs(i, !is_last));
        let step = |part, counts| {
            let config = radix::RadixConfig { dtype, descending, is_first, part };
            let args = RadixArgs::<Planned> {
                rows: input,
                sorted,
                positions,
                keys,
                key_positions: key_positions.flatten(),
                to_keys,
                to_positions: to_positions.flatten(),
                counts,
                len,
                tiles,
                shift: shift + if is_wide { 0 } else { 32 },
            };
            Step::new(planner.kernel(config, radix::kernel_of), launch).with(args)
        };
        plan.steps.push(step(radix::Part::Count, counts[0])?);
        plan.append(scan.plan(&sum, planner)?, &[(counts[0], 0)], &[(counts[1], 0)]);
        plan.steps.push(step(radix::Part::Move { is_last }, counts[1])?);
    }
    Ok(plan)
}

/// Kernels as they ship, to be assembled and compared.
pub(crate) fn kernels() -> Vec<Shipped> {
    let of = |dtype, descending, stage| kernel::kernel_of(&SortConfig { dtype, descending, stage });
    let by_digit =
        |dtype, descending, is_first, part| radix::kernel_of(&radix::RadixConfig { dtype, descending, is_first, part });
    let moved = |is_last| radix::Part::Move { is_last };
    Shipped::each([
        by_digit(Dtype::F32, false, true, radix::Part::Count),
        by_digit(Dtype::I64, true, false, radix::Part::Count),
        by_digit(Dtype::U8, false, true, moved(true)),
        by_digit(Dtype::F16, true, true, moved(false)),
        by_digit(Dtype::U32, false, false, moved(false)),
        by_digit(Dtype::F64, false, false, moved(true)),
        of(Dtype::F32, true, Stage::Rows { log_len: 5, is_part: false }),
        of(Dtype::I64, false, Stage::Rows { log_len: CHUNK.ilog2(), is_part: true }),
        of(Dtype::F64, false, Stage::Distant),
        of(Dtype::Bf16, false, Stage::Merge { is_last: true }),
    ])
}
