//! A product of matrices, as far as its plan needs to know it.

use std::fmt;

use crate::{Dtype, Error, ErrorKind};

/// Dimensions of a batch at most, once those that are walked like one are one.
pub const BATCH_RANK: usize = 3;

/// Where the elements of a matrix lie, or those of each matrix of a batch. Strides count elements, and may be 0 (repeated)
/// or less (reversed).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Matrix {
    /// The element type.
    pub dtype: Dtype,
    /// The position of the first row's first element in its memory.
    pub first: u64,
    /// From one row to the next.
    pub row_stride: i64,
    /// From one column to the next.
    pub column_stride: i64,
    /// From one matrix to the next, in each dimension of the batch.
    pub batch_strides: [i64; BATCH_RANK],
    /// A power of two up to 16 that the address of the first element is a multiple of, in bytes.
    pub alignment: u64,
}

impl Matrix {
    /// One matrix of rows without gaps, at the beginning of an allocation.
    #[must_use]
    pub const fn rows(dtype: Dtype, columns: u64) -> Self {
        let (row_stride, column_stride) = (columns as i64, 1);
        Self { dtype, first: 0, row_stride, column_stride, batch_strides: [0; BATCH_RANK], alignment: 16 }
    }

    /// The matrix with rows and columns exchanged.
    #[must_use]
    pub const fn transposed(self) -> Self {
        Self { row_stride: self.column_stride, column_stride: self.row_stride, ..self }
    }

    /// Whether no two matrices of a batch are the same memory.
    pub(super) fn batch_strides_differ(&self, batch: [u64; BATCH_RANK]) -> bool {
        batch.iter().zip(self.batch_strides).all(|(size, stride)| *size <= 1 || stride != 0)
    }

    /// Whether the elements of a row lie side by side, and groups of so many (a power of two) at multiples of their size, or
    /// of 16 bytes, when rows are whole groups.
    #[must_use]
    pub fn groups_are_wide(&self, columns: u64, group: u64) -> bool {
        let others = self.batch_strides.iter().chain([&self.row_stride]);
        self.column_stride == 1
            && self.alignment >= (group * self.dtype.bytes()).min(16)
            && columns.is_multiple_of(group)
            && others.into_iter().all(|stride| stride % group as i64 == 0)
    }

    /// The positions of the lowest element and of the one behind the highest; none for no elements.
    fn reach(&self, rows: u64, columns: u64, batch: [u64; BATCH_RANK]) -> Option<(i128, i128)> {
        let sizes = [rows, columns].into_iter().chain(batch);
        let strides = [self.row_stride, self.column_stride].into_iter().chain(self.batch_strides);
        let (mut low, mut high) = (i128::from(self.first), i128::from(self.first));
        for (size, stride) in sizes.zip(strides) {
            let walk = i128::from(size.checked_sub(1)?) * i128::from(stride);
            low += walk.min(0);
            high += walk.max(0);
        }
        Some((low, high + 1))
    }

    /// Refuses a memory of so many bytes that does not hold every element.
    pub(super) fn check(
        &self,
        (rows, columns, batch): (u64, u64, [u64; BATCH_RANK]),
        name: &str,
        bytes: usize,
    ) -> Result<(), Error> {
        let Some((low, high)) = self.reach(rows, columns, batch) else { return Ok(()) };
        if low >= 0 && high * i128::from(self.dtype.bytes()) <= bytes as i128 {
            return Ok(());
        }
        let elements = bytes as u64 / self.dtype.bytes();
        Err(refused(format!("{name} has {elements} elements, and those from {low} to {high} are needed")))
    }
}

/// `c = epilogue(a b)`: `a` is `m` x `k`, `b` is `k` x `n`, `c` is `m` x `n`, for each position of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Problem {
    /// Rows of `a` and `c`.
    pub m: u64,
    /// Columns of `b` and `c`.
    pub n: u64,
    /// Columns of `a`, rows of `b`; of none the sums are 0.
    pub k: u64,
    /// Products of the batch in each dimension, outermost first; 1 where there are fewer dimensions.
    pub batch: [u64; BATCH_RANK],
    /// The left matrix.
    pub a: Matrix,
    /// The right matrix.
    pub b: Matrix,
    /// The result.
    pub c: Matrix,
    /// What the epilogue reads beside the products, in the order of its steps, each as large as the result (by strides of 0).
    pub inputs: Vec<Matrix>,
    /// Whether the bits of a row may depend on the number of rows.
    pub rows: Rows,
    /// How exactly factors of `f32` are taken.
    pub singles: Singles,
}

/// How exactly factors of `f32` are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Singles {
    /// As they are.
    #[default]
    Full,
    /// Without their low 13 bits (tf32), which tensor cores multiply: relative errors up to 2^-10 of each factor. Where the
    /// device or the layout does not allow it they are taken as they are.
    Tf32,
}

/// Whether the bits of a row of the result may depend on how many rows there are, or on the rest of the batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Rows {
    /// They may: the plan splits `k` where there are few tiles.
    #[default]
    Planned,
    /// They may not: a row has the same bits in any batch.
    Invariant,
}

impl Problem {
    /// A product of two matrices without gaps, of one element type.
    #[must_use]
    pub fn new(dtype: Dtype, m: u64, n: u64, k: u64) -> Self {
        Self {
            m,
            n,
            k,
            batch: [1; BATCH_RANK],
            a: Matrix::rows(dtype, k),
            b: Matrix::rows(dtype, n),
            c: Matrix::rows(dtype, n),
            inputs: Vec::new(),
            rows: Rows::Planned,
            singles: Singles::Full,
        }
    }

    /// The problem whose result is this one's with rows and columns exchanged.
    pub(super) fn turned(&self) -> Self {
        let [a, b, c] = [self.b, self.a, self.c].map(Matrix::transposed);
        let inputs = self.inputs.iter().copied().map(Matrix::transposed).collect();
        Self { m: self.n, n: self.m, a, b, c, inputs, ..*self }
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

    /// The type that products are added up in: `f32` for floats of up to 32 bits, `i32` for integers of up to 32.
    ///
    /// # Errors
    /// [`ErrorKind::DtypeMismatch`], [`ErrorKind::Unsupported`].
    pub fn accumulator(&self) -> Result<Dtype, Error> {
        let (left, right) = (self.a.dtype, self.b.dtype);
        if left != right {
            return Err(ErrorKind::DtypeMismatch { left, right }.into());
        }
        match left {
            Dtype::F16 | Dtype::Bf16 | Dtype::F32 | Dtype::F8E4M3 | Dtype::F8E5M2 => Ok(Dtype::F32),
            Dtype::F64 => Ok(Dtype::F64),
            Dtype::I8 | Dtype::U8 | Dtype::I16 | Dtype::I32 => Ok(Dtype::I32),
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
