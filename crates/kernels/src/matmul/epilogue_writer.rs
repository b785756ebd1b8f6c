//! How a kernel applies the epilogue and stores the result.
//!
//! Every main loop uses it. The kernel receives [`EpilogueArgs`] after its own parameters,
//! makes an [`EpilogueWriter`] for its position in the batch, and hands it neighbours of a row by
//! [`EpilogueWriter::store_row`].

use warpfold_lang::{Global, Registers, Val, when, when_else};

use super::accumulator::Accumulator;
use super::args::{EpilogueArgs, MatrixArgs};
use super::epilogue::{OutputCoord, Step};
use super::gate::Gate;
use super::problem::{BATCH_RANK, Matrix, Problem};
use crate::Dtype;
use crate::elements;

/// Neighbours of a row that are stored, and loaded, as one where memory allows it.
pub(crate) const GROUP: u32 = 4;

/// The layout of a tensor at the end of a kernel, as far as its code depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct TensorAccess {
    dtype: Dtype,
    by_row: RowAccess,
}

/// How the elements of a row lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum RowAccess {
    /// Side by side, groups of them at multiples of their size.
    Vector,
    /// At any distance.
    Strided,
    /// One element for the whole row.
    PerRow,
    /// One element for the whole matrix.
    Scalar,
}

impl RowAccess {
    /// Whether each column has an element of its own.
    const fn is_of_columns(self) -> bool {
        matches!(self, Self::Vector | Self::Strided)
    }
}

// THRESHOLD: of more inputs places outside of the result are not read; tested by
// crates/kernels/tests/matmul/main.rs::an_epilogue_scales_adds_activates_and_adds_again and
// crates/kernels/tests/matmul/wgmma.rs::an_epilogue_multiplies_by_scales_of_rows_columns_and_all
/// Inputs with an element for each column whose loads a thread may have in flight at once, for all
/// of its sums: with two, ptxas spills where a thread has 128 sums.
const MOST_AT_ONCE: usize = 1;

/// The end of a kernel, when it is built: steps, element types, and what is known of the strides.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct EpilogueKey {
    steps: Vec<Step>,
    result: TensorAccess,
    inputs: Vec<TensorAccess>,
    /// Whether rows are whole groups of [`GROUP`].
    is_whole: bool,
    key: String,
}

impl EpilogueKey {
    /// The end that a problem needs.
    #[must_use]
    pub(crate) fn new(problem: &Problem) -> Self {
        let epilogue = &problem.epilogue;
        let access = |matrix: &Matrix| {
            let by_row = match matrix.column_stride {
                0 if matrix.row_stride == 0 => RowAccess::Scalar,
                0 => RowAccess::PerRow,
                _ if matrix.groups_are_wide(problem.result_columns(), GROUP.into()) => RowAccess::Vector,
                _ => RowAccess::Strided,
            };
            TensorAccess { dtype: matrix.dtype, by_row }
        };
        let is_whole = problem.result_columns().is_multiple_of(GROUP.into());
        let result = access(&problem.c);
        let inputs: Vec<TensorAccess> = problem.inputs.iter().map(access).collect();
        let describe = |access: &TensorAccess| {
            let by_row = match access.by_row {
                RowAccess::Vector => "w",
                RowAccess::Strided => "s",
                RowAccess::PerRow => "r",
                RowAccess::Scalar => "o",
            };
            format!("{}{by_row}", access.dtype)
        };
        let tensors = std::iter::once(&result).chain(&inputs).map(describe).collect::<Vec<_>>().join("_");
        let whole = if is_whole { "" } else { "_odd" };
        let key = format!("{tensors}{}{whole}", epilogue.key());
        Self { steps: epilogue.steps().to_vec(), result, inputs, is_whole, key }
    }

    /// Bytes of an element of the result.
    pub(super) const fn result_bytes(&self) -> u64 {
        self.result.dtype.bytes()
    }

    /// Whether rows are whole groups of [`GROUP`].
    pub(super) const fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// How two sums become one result, if they do.
    pub(super) fn gate(&self) -> Option<Gate> {
        let [Step::Gate(activation)] = self.steps[..] else { return None };
        Some(Gate { activation, dtype: self.result.dtype })
    }

    /// As part of a kernel's name.
    #[must_use]
    pub(crate) fn key(&self) -> &str {
        &self.key
    }
}

/// Where a block is in the batch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchCoord {
    /// All dimensions as one.
    pub flat: Val<u32>,
    /// Each dimension.
    pub each: [Val<u32>; BATCH_RANK],
}

/// A tensor's element of row 0 and column 0 at the block's position in the batch.
#[derive(Debug, Clone, Copy)]
struct Tensor {
    access: TensorAccess,
    first: Global<u8>,
    strides: [Val<i64>; 2],
}

/// The end of a kernel, while it is recorded.
#[derive(Debug)]
pub(crate) struct EpilogueWriter<'a, A: Accumulator> {
    key: &'a EpilogueKey,
    sizes: [Val<u32>; 2],
    flat: Val<u32>,
    result: Tensor,
    inputs: Vec<Input<A>>,
    scalars: Vec<Val<A>>,
}

/// What the epilogue reads.
#[derive(Debug)]
struct Input<A: Accumulator> {
    tensor: Tensor,
    /// Its element, if it has one for the whole matrix.
    one: Option<Val<A>>,
}

impl<'a, A: Accumulator> EpilogueWriter<'a, A> {
    /// The end of a block's work on the result of `m` rows and `n` columns at a position of the
    /// batch.
    #[must_use]
    pub(crate) fn new(
        key: &'a EpilogueKey,
        outputs: EpilogueArgs,
        [m, n]: [Val<u32>; 2],
        position: BatchCoord,
    ) -> Self {
        let tensor = |access: TensorAccess, matrix: MatrixArgs| {
            let first = matrix.memory.at(matrix.offset(&position) * access.dtype.bytes() as i64);
            Tensor { access, first, strides: [matrix.row.get(), matrix.column.get()] }
        };
        let inputs = key.inputs.iter().zip(outputs.inputs);
        let is_number = |step: &&Step| matches!(step, Step::Scale | Step::AddScaled);
        let num_scalars = key.steps.iter().filter(is_number).count();
        Self {
            key,
            sizes: [m, n],
            flat: position.flat,
            result: tensor(key.result, outputs.result),
            inputs: inputs.map(|(access, matrix)| Input::new(tensor(*access, matrix))).collect(),
            scalars: (0..num_scalars).map(|i| outputs.scalars.at(i).cast()).collect(),
        }
    }

    /// Finishes and stores the values of neighbours in a row, those that are inside the result. A
    /// power of two of them, from a column on that is a multiple of their number.
    #[track_caller]
    pub(crate) fn store_row(&self, values: &[Val<A>], row: Val<u32>, column: Val<u32>) {
        let [m, n] = self.sizes;
        if self.key.is_whole && values.len() <= GROUP as usize {
            when(row.lt(m) & column.lt(n), || self.group(values, row, column));
            return;
        }
        for (j, value) in (0_u32..).zip(values) {
            let column = column + j;
            when(row.lt(m) & column.lt(n), || self.group(&[*value], row, column));
        }
    }

    /// The same for values that are made where they are inside the result, of rows of whole groups.
    #[track_caller]
    pub(crate) fn store_row_of<const N: usize>(
        &self,
        values: impl FnOnce() -> [Val<A>; N],
        row: Val<u32>,
        column: Val<u32>,
    ) {
        assert!(self.key.is_whole && N <= GROUP as usize, "rows are whole groups");
        let [m, n] = self.sizes;
        when(row.lt(m) & column.lt(n), || self.group(&values(), row, column));
    }

    /// Whether the result has a column.
    pub(super) fn has_column(&self, column: Val<u32>) -> Val<bool> {
        column.lt(self.sizes[1])
    }

    /// Whether groups of [`GROUP`] neighbours in a row of the result are stored as one.
    pub(super) fn is_wide(&self) -> bool {
        self.key.is_whole && self.key.result.by_row == RowAccess::Vector
    }

    /// Finishes and stores the values of neighbours in a row that are inside the result.
    #[track_caller]
    pub(crate) fn store_inside(&self, values: &[Val<A>], row: Val<u32>, column: Val<u32>) {
        self.group(values, row, column);
    }

    fn group(&self, values: &[Val<A>], row: Val<u32>, column: Val<u32>) {
        let inputs = self.inputs_at(values.len(), row, column);
        self.result.store(&self.finished(values, &inputs, row, column), row, column);
    }

    /// For neighbours in a row that are inside the result: what each input has there.
    fn inputs_at(&self, len: usize, row: Val<u32>, column: Val<u32>) -> Vec<Vec<Val<A>>> {
        self.inputs.iter().map(|input| input.load(len, row, column)).collect()
    }

    /// What neighbours in a row become.
    fn finished(&self, values: &[Val<A>], inputs: &[Vec<Val<A>>], row: Val<u32>, column: Val<u32>) -> Vec<Val<A>> {
        (0_u32..)
            .zip(values)
            .map(|(j, value)| {
                let inputs: Vec<_> = inputs.iter().map(|input| input[j as usize]).collect();
                let place = OutputCoord { batch: self.flat, row, column: column + j };
                self.value(*value, place, &inputs)
            })
            .collect()
    }

    /// What two neighbours in a row become, for kernels that store them themselves; anything for
    /// what is outside the result.
    #[track_caller]
    #[must_use]
    pub(crate) fn pair(&self, values: [Val<A>; 2], row: Val<u32>, column: Val<u32>) -> [Val<A>; 2] {
        if self.key.is_whole || self.inputs.is_empty() {
            return self.neighbours(values, row, column);
        }
        let [[left], [right]] = [0, 1].map(|j| self.neighbours([values[j]], row, column + j as u32));
        [left, right]
    }

    /// What neighbours become that are inside the result together, or outside.
    fn neighbours<const N: usize>(&self, values: [Val<A>; N], row: Val<u32>, column: Val<u32>) -> [Val<A>; N]
    where
        [Val<A>; N]: Registers,
    {
        let [m, n] = self.sizes;
        let with_inputs_at = |down: Val<u32>, right: Val<u32>| -> [Val<A>; N] {
            let finished = self.finished(&values, &self.inputs_at(N, down, right), row, column);
            std::array::from_fn(|j| finished[j])
        };
        let matrices = self.inputs.iter().filter(|input| input.tensor.access.by_row.is_of_columns()).count();
        match matrices {
            _ if self.inputs.is_empty() => with_inputs_at(row, column),
            // No branch: what is outside reads the last row or column, so that all loads of a
            // thread may be in flight at once.
            0..=MOST_AT_ONCE => with_inputs_at(row.min(m - 1), column.min(n - N as u32)),
            _ => when_else(row.lt(m) & column.lt(n), || with_inputs_at(row, column), || values),
        }
    }

    /// A sum's way through the steps.
    #[must_use]
    pub(crate) fn value(&self, sum: Val<A>, place: OutputCoord, inputs: &[Val<A>]) -> Val<A> {
        let (mut next_input, mut next_scalar) = (inputs.iter(), self.scalars.iter());
        let mut input = || *next_input.next().expect("an epilogue counts its inputs");
        let mut scalar = || *next_scalar.next().expect("an epilogue counts its numbers");
        self.key.steps.iter().fold(sum, |value, step| match step {
            Step::Scale => value * scalar(),
            Step::Multiply => value * input(),
            Step::Add => value + input(),
            Step::AddScaled => input().mul_add(scalar(), value),
            Step::Activate(activation) => A::activate(*activation, value),
            Step::Apply(function) => A::call(function, value, place, inputs),
            // It was applied to both of its columns.
            Step::Gate(_) => value,
        })
    }
}

impl<A: Accumulator> Input<A> {
    fn new(tensor: Tensor) -> Self {
        let origin = Val::constant(0);
        let one = (tensor.access.by_row == RowAccess::Scalar).then(|| tensor.load(1, origin, origin)[0]);
        Self { tensor, one }
    }

    fn load(&self, len: usize, row: Val<u32>, column: Val<u32>) -> Vec<Val<A>> {
        self.one.map_or_else(|| self.tensor.load(len, row, column), |one| vec![one; len])
    }
}

impl Tensor {
    fn at(&self, row: Val<u32>, column: Val<u32>) -> Global<u8> {
        let [down, along] = self.strides;
        let bytes = self.access.dtype.bytes() as i64;
        let row = row.cast::<i64>() * down;
        let place = match self.access.by_row {
            RowAccess::Vector => row + column.cast::<i64>(),
            RowAccess::Strided => column.cast::<i64>().mul_add(along, row),
            RowAccess::PerRow | RowAccess::Scalar => row,
        };
        self.first.at(place * bytes)
    }

    fn load<A: Accumulator>(&self, len: usize, row: Val<u32>, column: Val<u32>) -> Vec<Val<A>> {
        let TensorAccess { dtype, by_row } = self.access;
        match by_row {
            RowAccess::Vector => elements::load(dtype, self.at(row, column), len as u32, true),
            RowAccess::Strided => {
                (0..len as u32).flat_map(|j| elements::load(dtype, self.at(row, column + j), 1, false)).collect()
            }
            RowAccess::PerRow | RowAccess::Scalar => {
                vec![elements::load(dtype, self.at(row, column), 1, false)[0]; len]
            }
        }
    }

    fn store<A: Accumulator>(&self, values: &[Val<A>], row: Val<u32>, column: Val<u32>) {
        let TensorAccess { dtype, by_row } = self.access;
        if by_row == RowAccess::Vector {
            return elements::store(dtype, self.at(row, column), values, true);
        }
        for (j, value) in (0_u32..).zip(values) {
            elements::store(dtype, self.at(row, column + j), &[*value], false);
        }
    }
}
