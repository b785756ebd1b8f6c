//! A product of matrices as a value: sizes, layouts, types, epilogue, options.

use std::fmt;

use super::epilogue::Epilogue;
use super::wgmma::WgmmaTile;
use crate::layout::{Dim, Layout, MAX_RANK, merge};
use crate::plan::OperandSpec;
use crate::{Dtype, Error, ErrorKind};

/// [`Matrix::MAX_BATCH_RANK`].
pub(crate) const MAX_BATCH_RANK: usize = MAX_RANK - 2;

/// Dimensions of a batch that kernels walk: the last ones. With more, matrices are repacked.
pub(crate) const BATCH_RANK: usize = 3;

// THRESHOLD: more parts of k are refused; tested by
// crates/kernels/tests/matmul/tree.rs::parts_that_are_no_tree_are_refused
/// The most parts of [`Problem::k_parts`].
const MAX_K_PARTS: u64 = 8;

/// Where the elements of a matrix lie, or those of each matrix of a batch. Strides count elements,
/// and may be 0 (repeated) or less (reversed). Its memory begins at the element that is first
/// there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Matrix {
    /// The element type.
    pub dtype: Dtype,
    /// From one row to the next.
    pub row_stride: i64,
    /// From one column to the next.
    pub column_stride: i64,
    /// From one matrix to the next, in each dimension of the batch.
    pub batch_strides: [i64; MAX_BATCH_RANK],
    /// A power of two up to 16 that the address of its memory is a multiple of, in bytes.
    pub alignment: u64,
}

impl Matrix {
    /// Dimensions of a batch at most: those of a tensor but rows and columns.
    pub const MAX_BATCH_RANK: usize = MAX_BATCH_RANK;

    /// One matrix of rows without gaps, at the beginning of an allocation.
    #[must_use]
    pub const fn rows(dtype: Dtype, columns: u64) -> Self {
        let (row_stride, column_stride) = (columns as i64, 1);
        Self { dtype, row_stride, column_stride, batch_strides: [0; MAX_BATCH_RANK], alignment: 16 }
    }

    /// The matrix with rows and columns exchanged.
    #[must_use]
    pub const fn transposed(self) -> Self {
        Self { row_stride: self.column_stride, column_stride: self.row_stride, ..self }
    }

    /// The matrices of a batch, by their strides in its last dimensions; in those before it
    /// repeats.
    #[must_use]
    pub fn in_batch<const N: usize>(self, strides: [i64; N]) -> Self {
        let mut batch_strides = [0; MAX_BATCH_RANK];
        batch_strides[MAX_BATCH_RANK - N..].copy_from_slice(&strides);
        Self { batch_strides, ..self }
    }

    /// Matrices without gaps, one after the other.
    pub(super) fn packed(dtype: Dtype, [rows, columns]: [u64; 2], batch: [u64; MAX_BATCH_RANK]) -> Self {
        let mut matrix = Self::rows(dtype, columns);
        let mut stride = (rows * columns) as i64;
        for (size, place) in batch.iter().zip(&mut matrix.batch_strides).rev() {
            *place = if *size == 1 { 0 } else { stride };
            stride *= *size as i64;
        }
        matrix
    }

    /// Batch, rows and columns as one layout.
    pub(super) fn layout(&self, [rows, columns]: [u64; 2], batch: [u64; MAX_BATCH_RANK]) -> Result<Layout, Error> {
        let shape = batch.into_iter().chain([rows, columns]).map(|size| size as usize).collect();
        let strides = self.batch_strides.into_iter().chain([self.row_stride, self.column_stride]);
        Layout::new(shape, strides.map(|stride| stride as isize).collect())
    }

    /// Whether no two matrices of a batch are the same memory.
    pub(super) fn batch_strides_differ(&self, batch: [u64; MAX_BATCH_RANK]) -> bool {
        batch.iter().zip(self.batch_strides).all(|(size, stride)| *size <= 1 || stride != 0)
    }

    /// Whether the elements of a row lie side by side, and groups of this many (a power of two) at
    /// multiples of their size, or of 16 bytes, when rows are whole groups.
    #[must_use]
    pub fn groups_are_wide(&self, columns: u64, group: u64) -> bool {
        let others = self.batch_strides.iter().chain([&self.row_stride]);
        self.column_stride == 1
            && self.alignment >= (group * self.dtype.bytes()).min(16)
            && columns.is_multiple_of(group)
            && others.into_iter().all(|stride| stride % group as i64 == 0)
    }

    /// How far the elements reach below the first one, and above it; `None` for no elements.
    fn reach(&self, sizes: [u64; 2], batch: [u64; MAX_BATCH_RANK]) -> Option<[u128; 2]> {
        let strides = [self.row_stride, self.column_stride].into_iter().chain(self.batch_strides);
        let mut reach = [0; 2];
        for (size, stride) in sizes.into_iter().chain(batch).zip(strides) {
            let side = usize::from(stride > 0);
            reach[side] += u128::from(size.checked_sub(1)?) * u128::from(stride.unsigned_abs());
        }
        Some(reach)
    }

    /// The position of the first row's first element in the memory.
    pub(super) fn first(&self, sizes: [u64; 2], batch: [u64; MAX_BATCH_RANK]) -> u64 {
        self.reach(sizes, batch).map_or(0, |[below, _]| below as u64)
    }

    /// The memory that a launch needs.
    pub(super) fn operand(
        &self,
        name: &'static str,
        sizes: [u64; 2],
        batch: [u64; MAX_BATCH_RANK],
    ) -> Result<OperandSpec, Error> {
        let elements = self.reach(sizes, batch).map_or(0, |[below, above]| below + above + 1);
        let bytes = elements * u128::from(self.dtype.bytes());
        let bytes = i64::try_from(bytes).map_err(|_| refused(format!("{name} is larger than any memory")))?;
        Ok(OperandSpec::new(name, bytes as u64, self.alignment))
    }
}

/// `c = epilogue(a b)`: `a` is `m` x `k`, `b` is `k` x `n`, `c` is `m` x `n`, for each position of
/// a batch.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Problem {
    /// Rows of `a` and `c`.
    pub m: u64,
    /// Columns of `b` and `c`.
    pub n: u64,
    /// Columns of `a`, rows of `b`; of none the sums are 0.
    pub k: u64,
    /// Products of the batch in each dimension, outermost first; 1 where there are fewer
    /// dimensions.
    pub batch: [u64; MAX_BATCH_RANK],
    /// The left matrix.
    pub a: Matrix,
    /// The right matrix.
    pub b: Matrix,
    /// The result.
    pub c: Matrix,
    /// What is done to the sums.
    pub epilogue: Epilogue,
    /// What the epilogue reads beside the products, in the order of its steps, each as large as the
    /// result (by strides of 0).
    pub inputs: Vec<Matrix>,
    /// Whether the bits of a row may depend on the number of rows.
    pub batch_invariance: BatchInvariance,
    /// Parts of equal length that `k` is cut into, a power of two: each part is summed by itself,
    /// and the sums are added in a balanced tree, `((0+1)+(2+3))+((4+5)+(6+7))` of eight. So a
    /// product has the same bits as several, each of some of the parts, whose results are added so.
    pub k_parts: u64,
    /// How exactly factors of `f32` are taken.
    pub f32_math: F32Math,
    /// Whether `b` are weights: no launch that may still run when this one begins writes them. They
    /// are then read before the launches before this one have ended.
    pub weights: bool,
}

/// How exactly factors of `f32` are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum F32Math {
    /// As they are.
    #[default]
    Ieee,
    /// Without their low 13 bits (tf32), which tensor cores multiply: relative errors up to 2^-10
    /// of each factor. Where the device or the layout does not allow it they are taken as they are.
    Tf32,
}

/// Whether the bits of a row of the result may depend on how many rows there are, or on the rest of
/// the batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum BatchInvariance {
    /// They may: the plan splits `k` where there are few tiles.
    #[default]
    Off,
    /// They may not: a row has the same bits in any batch.
    On,
}

impl Problem {
    /// A product of two matrices without gaps, of one element type.
    #[must_use]
    pub fn new(dtype: Dtype, m: u64, n: u64, k: u64) -> Self {
        Self {
            m,
            n,
            k,
            batch: [1; MAX_BATCH_RANK],
            a: Matrix::rows(dtype, k),
            b: Matrix::rows(dtype, n),
            c: Matrix::rows(dtype, n),
            epilogue: Epilogue::new(),
            inputs: Vec::new(),
            batch_invariance: BatchInvariance::Off,
            k_parts: 1,
            f32_math: F32Math::Ieee,
            weights: false,
        }
    }

    /// Columns of `c`: half of `n` with a [gate](Epilogue::gate).
    #[must_use]
    pub fn result_columns(&self) -> u64 {
        if self.epilogue.gate_activation().is_some() { self.n / 2 } else { self.n }
    }

    /// The problem whose result is this one's with rows and columns exchanged.
    pub(super) fn swapped(&self) -> Self {
        let [a, b, c] = [self.b, self.a, self.c].map(Matrix::transposed);
        let inputs = self.inputs.iter().copied().map(Matrix::transposed).collect();
        Self { m: self.n, n: self.m, a, b, c, inputs, epilogue: self.epilogue.clone(), weights: false, ..*self }
    }

    /// The problem for each position of a batch of these sizes.
    #[must_use]
    pub fn in_batch<const N: usize>(mut self, sizes: [u64; N]) -> Self {
        self.batch = [1; MAX_BATCH_RANK];
        self.batch[MAX_BATCH_RANK - N..].copy_from_slice(&sizes);
        self
    }

    /// The same problem with those dimensions of the batch as one that all matrices walk like one.
    pub(super) fn merged(mut self) -> Self {
        let dims = merge((0..MAX_BATCH_RANK).filter(|dim| self.batch[*dim] != 1).map(|dim| Dim {
            size: self.batch[dim],
            strides: self.matrices().map(|matrix| matrix.batch_strides[dim]).collect(),
        }));
        let first = MAX_BATCH_RANK - dims.len();
        self.batch = std::array::from_fn(|dim| dim.checked_sub(first).map_or(1, |dim| dims[dim].size));
        let matrices = [&mut self.a, &mut self.b, &mut self.c].into_iter().chain(&mut self.inputs);
        for (i, matrix) in matrices.enumerate() {
            let stride = |dim: usize| dim.checked_sub(first).map_or(0, |dim| dims[dim].strides[i]);
            matrix.batch_strides = std::array::from_fn(stride);
        }
        self
    }

    /// Whether sums have one order, however many rows there are.
    pub(super) fn has_fixed_order(&self) -> bool {
        self.batch_invariance == BatchInvariance::On || self.k_parts > 1
    }

    /// Factors, result and what the epilogue reads.
    fn matrices(&self) -> impl Iterator<Item = &Matrix> {
        [&self.a, &self.b, &self.c].into_iter().chain(&self.inputs)
    }

    /// Whether kernels walk all dimensions of the batch.
    pub(super) fn is_walked(&self) -> bool {
        self.batch[..MAX_BATCH_RANK - BATCH_RANK].iter().all(|size| *size == 1)
    }

    /// Sizes of the dimensions of the batch that kernels walk.
    pub(super) fn walked(&self) -> [u64; BATCH_RANK] {
        std::array::from_fn(|dim| self.batch[MAX_BATCH_RANK - BATCH_RANK + dim])
    }

    /// Refuses what no kernel computes, whatever the device.
    pub(super) fn check(&self) -> Result<(), Error> {
        let Self { m, n, k, batch, epilogue, inputs, .. } = self;
        epilogue.check(self.accumulator()?)?;
        let (expected, found) = (epilogue.num_inputs(), inputs.len());
        if expected != found {
            return Err(refused(format!("the epilogue ({epilogue}) takes {expected} input(s), not {found}")));
        }
        let is_gated = epilogue.gate_activation().is_some();
        if is_gated && (!n.is_multiple_of(16) || self.num_products() != 1 || self.c.column_stride != 1) {
            let reason = "a gate takes one product, groups of eight columns in pairs, and rows of results without gaps";
            return Err(refused(format!("{reason}, not {self}")));
        }
        let parts = self.k_parts;
        if !parts.is_power_of_two() || parts > MAX_K_PARTS || !k.is_multiple_of(parts) {
            let reason = "the parts of k are 1, 2, 4 or 8, all of the same length";
            return Err(refused(format!("{reason}, not {parts} of {self}")));
        }
        if parts > 1 && (is_gated || self.num_products() != 1 || self.accumulator()? != Dtype::F32) {
            return Err(refused(format!(
                "parts of k are those of one product, of floats and without a gate, not {self}"
            )));
        }
        if let Some(size) = [m, n, k].into_iter().chain(batch).find(|size| **size > 1 << 31) {
            return Err(refused(format!(
                "{size} rows, columns or products of a batch are more than the kernels count"
            )));
        }
        Ok(())
    }

    /// The products of the parts of `k`, as a batch whose results lie one after the other.
    pub(super) fn of_parts(&self) -> Self {
        let Self { m, n, k, k_parts, a, b, batch_invariance, f32_math, .. } = *self;
        let part = k / k_parts;
        Self {
            a: a.in_batch([part as i64 * a.column_stride]),
            b: b.in_batch([part as i64 * b.row_stride]),
            c: Matrix::rows(Dtype::F32, n).in_batch([(m * n) as i64]),
            batch_invariance,
            f32_math,
            ..Self::new(a.dtype, m, n, part).in_batch([k_parts])
        }
    }

    /// Returns whether parts of `k` are no whole stages of the smallest tile of warpgroups.
    pub(super) fn has_ragged_parts(&self) -> bool {
        self.k_parts > 1 && !(self.k / self.k_parts).is_multiple_of(WgmmaTile::SMALL.depth(2).into())
    }

    /// Products of the batch.
    #[must_use]
    pub fn num_products(&self) -> u64 {
        self.batch.iter().product()
    }

    /// Multiplications and additions.
    #[must_use]
    pub fn flops(&self) -> u64 {
        2 * self.m * self.n * self.k * self.num_products()
    }

    /// The type that products are added up in: `f32` for floats of up to 32 bits, `i32` for
    /// integers that it holds, `i64` for others, in whose bits products without sign wrap alike.
    ///
    /// # Errors
    /// [`ErrorKind::DtypeMismatch`], [`ErrorKind::Unsupported`].
    pub fn accumulator(&self) -> Result<Dtype, Error> {
        let (left, right) = (self.a.dtype, self.b.dtype);
        if left != right {
            let operand = "the right factor".to_owned();
            return Err(ErrorKind::DtypeMismatch { operand, found: right, expected: left }.into());
        }
        match left {
            Dtype::F16 | Dtype::Bf16 | Dtype::F32 | Dtype::F8E4M3 | Dtype::F8E5M2 => Ok(Dtype::F32),
            Dtype::F64 => Ok(Dtype::F64),
            Dtype::I8 | Dtype::U8 | Dtype::I16 | Dtype::I32 => Ok(Dtype::I32),
            Dtype::U16 | Dtype::U32 | Dtype::I64 | Dtype::U64 => Ok(Dtype::I64),
            dtype => Err(ErrorKind::Unsupported { op: "matmul".to_owned(), dtype }.into()),
        }
    }
}

pub(super) fn refused(reason: String) -> Error {
    ErrorKind::Operand { operator: "matmul", reason }.into()
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { m, n, k, .. } = self;
        let products = self.num_products();
        if products != 1 {
            write!(f, "{products} x ")?;
        }
        write!(f, "{} [{m}, {k}] x [{k}, {n}]", self.a.dtype)
    }
}
