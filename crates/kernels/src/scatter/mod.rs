//! Elements or rows put where indices say: `table[indices[i]] = source[i]`, or combined with what
//! is there, with the same bits on every run.
//!
//! Contract: a contiguous table, changed in place; indices of any integer type, negative ones from
//! the end; a contiguous source of the table's type. Indices of one axis name positions along an
//! axis of the table, and the source has whole parts of the others (`index_add`). Indices of as
//! many axes as the table name one element each (`scatter_add`). For tables of one axis both are
//! the same.
//!
//! **Order.** What goes to one element is combined in the order of the indices, as a loop over them
//! on the host would, in the type that computes with the elements (`f32` for floats of 8 and 16
//! bits), and rounded once, at the end. Without a combination the last index wins. So nothing
//! depends on timing, and no float is added by an atomic: the places are sorted by a stable sort
//! ([`sort`]), which brings those that share an element together in their order, and
//! one thread folds each such run. A run is read in steps of a few, each of which waits for the one
//! before: a million indices that all name one element take as long as a million additions.
//!
//! A kernel cannot fail, so an index that names no place is passed over, and the lowest such
//! position is kept as [`Gather`](crate::gather::Gather) keeps it. Start with [`Scatter`].

mod kernel;
mod places;

use warpfold_device::LaunchConfig;

use crate::plan::{Family, MAX_BLOCKS_Y, OperandSpec, Plan, Planned, Planner, Step, grid_size};
use crate::reductions::Reduction;
use crate::sort::{self, Sort};
use crate::{Dtype, Error, ErrorKind, Shipped};

use kernel::{ScatterArgs, ScatterConfig};
use places::PlaceArgs;

/// Threads of a block.
const BLOCK: u32 = 256;

/// The family of scatters. Inputs are indices and source; outputs are the table, whose content
/// counts, and one word of 64 bits for bad positions, as [`Gather`](crate::gather::Gather) has it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Scatter;

/// What is scattered.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Problem {
    /// The type of table and source.
    pub dtype: Dtype,
    /// The type of the indices, an integer.
    pub indices: Dtype,
    /// Sizes of the table.
    pub table: Vec<usize>,
    /// The axis of the table that indices count along.
    pub axis: usize,
    /// Sizes of the indices, in C order: one, or one for each axis of the table.
    pub shape: Vec<usize>,
    /// How sources and table are combined: a sum, a product, the largest or the smallest; `None`
    /// for the last source.
    pub combine: Option<Reduction>,
    /// Whether the table's element is the first of what is combined.
    pub include_table: bool,
}

impl Problem {
    fn check(&self) -> Result<(), Error> {
        let refused = |reason: String| Err(ErrorKind::Operand { operator: "scatter", reason }.into());
        let Self { indices, table, axis, shape, combine, .. } = self;
        if !indices.is_integer() {
            return Err(ErrorKind::Unsupported { op: "scatter".to_owned(), dtype: *indices }.into());
        }
        if *axis >= table.len() {
            return Err(ErrorKind::AxisOutOfRange { axis: *axis as isize, rank: table.len() }.into());
        }
        if shape.len() != 1 && shape.len() != table.len() {
            return refused(format!("the indices have {} axes, the table has {}", shape.len(), table.len()));
        }
        let is_combination = |combine: &Reduction| {
            matches!(combine, Reduction::Sum | Reduction::Product | Reduction::Max | Reduction::Min)
        };
        match combine {
            Some(combine) if !is_combination(combine) => {
                refused(format!("'{}' does not combine elements: sum, prod, max and min do", combine.name()))
            }
            _ => Ok(()),
        }
    }

    /// Whether each index names one element.
    fn is_by_element(&self) -> bool {
        self.shape.len() > 1
    }

    /// Bytes of source and table.
    fn bytes(&self) -> Result<[u64; 2], Error> {
        let too_large = || Error::from(ErrorKind::TooLarge { what: "a table", size: u64::MAX, limit: i64::MAX as u64 });
        let bytes = |sizes: &[usize]| {
            let all = sizes.iter().try_fold(self.dtype.bytes(), |all, size| all.checked_mul(*size as u64));
            all.filter(|all| *all <= i64::MAX as u64).ok_or_else(too_large)
        };
        let mut parts = self.table.clone();
        parts[self.axis] = self.shape[0];
        let source = if self.is_by_element() { &self.shape } else { &parts };
        Ok([bytes(source)?, bytes(&self.table)?])
    }
}

impl Family for Scatter {
    type Problem = Problem;

    fn plan(&self, problem: &Problem, planner: &Planner<'_>) -> Result<Plan, Error> {
        problem.check()?;
        let Problem { dtype, indices, table, axis, shape, combine, include_table } = problem;
        let [source_bytes, table_bytes] = problem.bytes()?;
        let count = shape.iter().map(|size| *size as u64).product::<u64>();
        let mut plan = Plan::new("scatter");
        let list = plan.add_input(OperandSpec::new("the indices", count * indices.bytes(), indices.bytes()));
        let source = plan.add_input(OperandSpec::new("the source", source_bytes, dtype.bytes()));
        let output = plan.add_output(OperandSpec::new("the table", table_bytes, dtype.bytes()));
        let bad_position = plan.add_output(OperandSpec::new("the bad position", 8, 8));
        if count == 0 {
            return Ok(plan.choice("nothing to scatter"));
        }
        let size = table[*axis] as u64;
        let product = |sizes: &[usize]| sizes.iter().map(|size| *size as u64).product::<u64>();
        // Places of an element each, or parts of all other axes at each place.
        let [places, outer, inner] = match problem.is_by_element() {
            true => [product(table), 1, 1],
            false => [size, product(&table[..*axis]), product(&table[axis + 1..])],
        };
        let part = outer * inner;
        let keys = if places < u64::from(u32::MAX) { Dtype::U32 } else { Dtype::U64 };
        let [unsorted, sorted, order] = [keys.bytes(), keys.bytes(), 8].map(|bytes| plan.add_scratch(count * bytes));

        let config = places::PlacesConfig { indices: *indices, keys, by_element: problem.is_by_element() };
        let blocks = grid_size(count.div_ceil(BLOCK.into()))?;
        let [sizes, steps] = problem.sizes_and_steps();
        let args = PlaceArgs::<Planned> {
            indices: list,
            keys: unsorted,
            bad_position,
            count,
            size,
            stride: if problem.is_by_element() { product(&table[axis + 1..]) } else { 1 },
            shape: sizes,
            steps,
            last_axis: shape.len().saturating_sub(1) as u32,
        };
        let kernel = planner.kernel(config, places::kernel_of);
        plan.steps.push(Step::new(kernel, LaunchConfig::new(blocks, BLOCK)).with(args)?);

        let rows = sort::Problem { dtype: keys, rows: 1, len: count, descending: false };
        plan.append(Sort.plan(&rows, planner)?, &[(unsorted, 0)], &[(sorted, 0), (order, 0)]);

        let lanes = part.clamp(1, BLOCK.into()).next_power_of_two() as u32;
        let config = ScatterConfig::new(*dtype, keys, *combine, *include_table, lanes);
        let blocks = grid_size(count.div_ceil(u64::from(BLOCK / lanes)))?;
        // THRESHOLD: blocks of a part walk over what is left; tested by
        // crates/kernels/tests/operations/walks.rs::parts_beyond_the_grid_are_scattered_by_the_blocks_that_there_are
        let launch = LaunchConfig::new((blocks, part.div_ceil(lanes.into()).clamp(1, MAX_BLOCKS_Y) as u32), BLOCK);
        let args = ScatterArgs::<Planned> { keys: sorted, order, source, table: output, count, places, outer, inner };
        let step = Step::new(planner.kernel(config, kernel::kernel_of), launch).with(args)?;
        Ok(plan.step(step).choice(format_args!("{count} indices, sorted, {config:?}")))
    }
}

/// Axes of indices at most.
const RANK: usize = crate::layout::MAX_RANK;

impl Problem {
    /// The sizes of the indices, and from one position of each axis to the next in the table; along
    /// the axis that indices count along they say nothing.
    fn sizes_and_steps(&self) -> [[u64; RANK]; 2] {
        let [mut sizes, mut steps] = [[1; RANK], [0; RANK]];
        let mut step = 1;
        for (dim, size) in self.shape.iter().enumerate().rev().filter(|_| self.is_by_element()) {
            sizes[dim] = *size as u64;
            steps[dim] = if dim == self.axis { 0 } else { step };
            step *= self.table[dim] as u64;
        }
        [sizes, steps]
    }
}

/// Kernels as they ship, to be assembled and compared.
pub(crate) fn kernels() -> Vec<Shipped> {
    let place = |indices, keys, by_element| places::kernel_of(&places::PlacesConfig { indices, keys, by_element });
    let scatter = |dtype, keys, combine, include_table, lanes| {
        kernel::kernel_of(&ScatterConfig::new(dtype, keys, combine, include_table, lanes))
    };
    Shipped::each([
        place(Dtype::I64, Dtype::U32, true),
        place(Dtype::U64, Dtype::U64, false),
        scatter(Dtype::F32, Dtype::U32, Some(Reduction::Sum), true, 1),
        scatter(Dtype::Bf16, Dtype::U32, Some(Reduction::Sum), true, 64),
        scatter(Dtype::I64, Dtype::U64, Some(Reduction::Max), false, 1),
        scatter(Dtype::F16, Dtype::U32, None, true, 256),
    ])
}
