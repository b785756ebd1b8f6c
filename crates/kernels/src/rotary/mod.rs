//! Rotary position embedding: each pair of elements of a head is turned by an angle of its
//! position, `(x, y) → (x cos − y sin, x sin + y cos)`, as ONNX's `RotaryEmbedding` has it. One
//! launch.
//!
//! Cosines and sines come from tables with a column for each pair: a row for each position, which a
//! list of positions names, or a row for each query as they come. Elements beyond the rotary ones
//! stay as they are. Products and sums are rounded one by one, in `f32`; the result is rounded to
//! its type.
//!
//! Start with [`Problem`]; `turn` is what a thread does with its part of a head, which the family
//! of [`crate::kv_cache`] shares, and `kernel` walks over heads.

mod kernel;
mod turn;

pub(crate) use kernel::{BLOCK, kernels};
pub(crate) use turn::{Dealing, Line, Tables, position};

use warpfold_device::LaunchConfig;

use crate::plan::{Arg, Family, Operand, OperandSpec, Plan, Planner, Step, grid_size};
use crate::{Dtype, Error, ErrorKind};

/// Which elements of a head are a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Pairs {
    /// One of the first half and the one at the same place of the second (NeoX, Llama).
    #[default]
    Halves,
    /// Neighbours (GPT-J).
    Interleaved,
}

/// The family of rotary embeddings. Inputs: elements, cosines, sines and, where the problem has
/// them, positions. Output: the results, contiguous in the order of the axes of the problem's
/// strides.
#[derive(Debug, Clone, Copy, Default)]
pub struct RotaryEmbedding;

/// What is turned. Strides count elements.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Problem {
    /// The type of elements and results.
    pub dtype: Dtype,
    /// The type of cosines and sines.
    pub table: Dtype,
    /// The type of the positions, `i32` or `i64`, where tables are read by position.
    pub positions: Option<Dtype>,
    /// Sequences.
    pub batch: u64,
    /// Positions of each.
    pub len: u64,
    /// Heads.
    pub heads: u64,
    /// Elements of a head.
    pub head_dim: u64,
    /// How many of them are turned: an even number.
    pub rotary_dim: u64,
    /// Which of them are pairs.
    pub pairs: Pairs,
    /// Of the elements: batch, positions, heads, elements.
    pub strides: [i64; 4],
    /// Of the results, likewise.
    pub out_strides: [i64; 4],
    /// Of the positions: batch, positions.
    pub position_strides: [i64; 2],
    /// Rows of the tables that positions name.
    pub rows: u64,
    /// From one row of the tables to the next: of batch and of positions, or of rows twice where
    /// there is a list of positions. Cosines, then sines.
    pub table_strides: [[i64; 2]; 2],
    /// A power of two that all addresses are multiples of, in bytes.
    pub alignment: u64,
}

// THRESHOLD: more units of work, slots of a cache and rows of a table are refused; tested by
// crates/kernels/tests/parts/choices.rs::units_of_a_rotary_embedding_and_rows_of_its_tables_are_counted_in_32_bits
/// The most units of work: threads count them in 32 bits.
pub(crate) const MAX_UNITS: u64 = 1 << 31;

pub(crate) fn refuse_unless_float(op: &str, dtypes: &[Dtype]) -> Result<(), Error> {
    let unfit = dtypes.iter().find(|dtype| !dtype.is_float() || **dtype == Dtype::F64);
    unfit.map_or(Ok(()), |dtype| Err(ErrorKind::Unsupported { op: op.to_owned(), dtype: *dtype }.into()))
}

pub(crate) fn refuse_unless_index(op: &str, dtype: Dtype) -> Result<(), Error> {
    match dtype {
        Dtype::I32 | Dtype::I64 => Ok(()),
        dtype => Err(ErrorKind::Unsupported { op: op.to_owned(), dtype }.into()),
    }
}

/// Whether so many neighbours are loaded at once: of tensors of these types, strides but the last,
/// and last strides.
pub(crate) fn widest(alignment: u64, tensors: &[(Dtype, &[i64], i64)], parts: &[u64]) -> u32 {
    let fits = |width: &u64| {
        parts.iter().all(|part| part.is_multiple_of(*width))
            && tensors.iter().all(|(dtype, outer, inner)| {
                *inner == 1
                    && outer.iter().all(|stride| stride % *width as i64 == 0)
                    && alignment.is_multiple_of((width * dtype.bytes()).min(16))
            })
    };
    [8_u64, 4, 2].into_iter().find(fits).unwrap_or(1) as u32
}

/// Elements from an address on that have these sizes and strides.
pub(crate) fn reach(dims: &[(u64, i64)]) -> u64 {
    if dims.iter().any(|(size, _)| *size == 0) {
        return 0;
    }
    1 + dims.iter().map(|(size, stride)| (size - 1) * stride.max(&0).unsigned_abs()).sum::<u64>()
}

impl Problem {
    fn check(&self) -> Result<(), Error> {
        refuse_unless_float("rotary embedding", &[self.dtype, self.table])?;
        self.positions.map_or(Ok(()), |dtype| refuse_unless_index("positions", dtype))?;
        let Self { head_dim, rotary_dim, .. } = *self;
        if !rotary_dim.is_multiple_of(2) || rotary_dim > head_dim {
            let reason = format!("{rotary_dim} rotary elements are no even part of {head_dim}");
            return Err(ErrorKind::Operand { operator: "rotary embedding", reason }.into());
        }
        Ok(())
    }

    fn dealing(&self) -> Dealing {
        let [cos, sin] = &self.table_strides;
        let tensors = [
            (self.dtype, &self.strides[..3], self.strides[3]),
            (self.dtype, &self.out_strides[..3], self.out_strides[3]),
            (self.table, &cos[..], 1),
            (self.table, &sin[..], 1),
        ];
        let Self { head_dim, rotary_dim, pairs, .. } = *self;
        let width = widest(self.alignment, &tensors, &[rotary_dim / 2, head_dim - rotary_dim]);
        Dealing { pairs, head_dim: head_dim as u32, rotary_dim: rotary_dim as u32, width }
    }

    fn operands(&self) -> Plan {
        let Self { batch, len, heads, head_dim, rotary_dim, strides, out_strides, .. } = *self;
        let of = |strides: [i64; 4]| {
            reach(&std::array::from_fn::<_, 4, _>(|i| ([batch, len, heads, head_dim][i], strides[i])))
        };
        let table = |[first, second]: [i64; 2]| {
            let rows = if self.positions.is_some() { [1, self.rows] } else { [batch, len] };
            reach(&[(rows[0], first), (rows[1], second), (rotary_dim / 2, 1)]) * self.table.bytes()
        };
        let [cos, sin] = self.table_strides.map(table);
        let mut plan = Plan::new("rotary embedding")
            .input(OperandSpec::new("the elements", of(strides) * self.dtype.bytes(), self.dtype.bytes()))
            .input(OperandSpec::new("the cosines", cos, self.table.bytes()))
            .input(OperandSpec::new("the sines", sin, self.table.bytes()));
        if let Some(dtype) = self.positions {
            let [first, second] = self.position_strides;
            let bytes = reach(&[(batch, first), (len, second)]) * dtype.bytes();
            plan = plan.input(OperandSpec::new("the positions", bytes, dtype.bytes()));
        }
        plan.output(OperandSpec::new("the results", of(out_strides) * self.dtype.bytes(), self.dtype.bytes()))
    }
}

impl Family for RotaryEmbedding {
    type Problem = Problem;

    fn plan(&self, problem: &Problem, planner: &Planner<'_>) -> Result<Plan, Error> {
        problem.check()?;
        let dealing = problem.dealing();
        let plan = problem.operands().choice(format_args!("{} pairs a thread", dealing.width));
        let Problem { batch, len, heads, rows, .. } = *problem;
        let units = [len, heads, dealing.units().into()].into_iter().fold(batch, u64::saturating_mul);
        if units == 0 {
            return Ok(plan);
        }
        if let Some(size) = [units, rows].into_iter().find(|size| *size > MAX_UNITS) {
            return Err(ErrorKind::TooLarge { what: "the rotary embedding", size, limit: MAX_UNITS }.into());
        }
        let config =
            kernel::Config { dealing, dtype: problem.dtype, table: problem.table, positions: problem.positions };
        let launch = LaunchConfig::new(grid_size(units.div_ceil(BLOCK.into()))?, BLOCK);
        let positions = problem.positions.map_or(Arg::Null, |_| Arg::Pointer(Operand::Input(3)));
        let sizes = [units, problem.heads, problem.len, problem.rows].map(|size| size as u32);
        let [cos, sin] = problem.table_strides;
        let strides = [&problem.strides[..], &problem.out_strides, &problem.position_strides, &cos, &sin].concat();
        let step = Step::new(planner.kernel(config, kernel::kernel_of), launch)
            .operands([0, 1, 2].map(Operand::Input), 3)
            .arg(positions)
            .arg(Operand::Output(0))
            .words(&sizes)
            .words(&strides);
        Ok(plan.step(step))
    }
}
