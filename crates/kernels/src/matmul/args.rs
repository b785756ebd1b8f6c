//! The parameters of the kernels of products.

use half::bf16;
use warpfold_lang::{Global, Lazy, Several, TensorMap, Val, params};

use super::epilogue::{MAX_INPUTS, MAX_SCALARS};
use super::epilogue_writer::BatchCoord;
use super::problem::{BATCH_RANK, MAX_BATCH_RANK, Matrix, Problem};
use crate::plan::{Operand, Planned};

params! {
    /// A matrix, or a batch of them.
    pub(crate) struct MatrixArgs {
        memory: Global<u8>,
        /// Elements before the first one.
        first: Lazy<i64>,
        /// Elements from row to row, from column to column, and in the batch.
        row: Lazy<i64>, column: Lazy<i64>,
        batch: [i64; BATCH_RANK],
    }
}

params! {
    /// Sizes of a product: rows and columns of the result, products of a sum, the batch.
    pub(crate) struct ProductSizes {
        m: Lazy<u32>, n: Lazy<u32>, k: Lazy<u32>,
        /// Products of a part of a sum, and how many parts there are.
        part: Lazy<u32>, parts: Lazy<u32>,
        batch: [u32; BATCH_RANK],
    }
}

params! {
    /// Parameters of the end of a kernel.
    pub(crate) struct EpilogueArgs {
        result: MatrixArgs,
        inputs: Several<Option<MatrixArgs>, MAX_INPUTS>,
        /// The numbers of the launch.
        scalars: [f64; MAX_SCALARS],
    }
}

params! {
    /// Parameters of a product whose factors threads copy. Rows of `b` are columns of the right
    /// matrix.
    pub(crate) struct ProductArgs {
        a: MatrixArgs, b: MatrixArgs,
        sizes: ProductSizes,
        /// Elements from the sums of a part to those of the next.
        part_stride: Lazy<i64>,
        end: EpilogueArgs,
    }
}

params! {
    /// Parameters of a product whose factors TMA copies.
    pub(crate) struct WgmmaArgs {
        a: TensorMap<u8>, b: TensorMap<u8>,
        /// The result, where copies store it.
        c: Option<TensorMap<bf16>>,
        sizes: ProductSizes,
        /// Strides of the factors in the batch.
        batch_a: [i64; BATCH_RANK], batch_b: [i64; BATCH_RANK],
        /// Elements from the sums of a part to those of the next.
        part_stride: Lazy<i64>,
        /// Rows and columns of an image of a convolution's result.
        height: Lazy<i64>, width: Lazy<i64>,
        end: EpilogueArgs,
    }
}

impl MatrixArgs {
    /// Elements before the matrix at a position of the batch.
    pub(super) fn offset(&self, position: &BatchCoord) -> Val<i64> {
        let dims = position.each.iter().enumerate();
        dims.fold(self.first.get(), |first, (dim, place)| place.cast::<i64>().mul_add(self.batch.at(dim), first))
    }
}

impl EpilogueArgs {
    /// The same for a result that begins so many bytes on.
    pub(super) fn result_at(self, bytes: Val<i64>) -> Self {
        Self { result: MatrixArgs { memory: self.result.memory.at(bytes), ..self.result }, ..self }
    }
}

impl Matrix {
    /// The last strides in the batch, those that kernels walk.
    pub(super) fn walked_strides(&self) -> [i64; BATCH_RANK] {
        std::array::from_fn(|dim| self.batch_strides[MAX_BATCH_RANK - BATCH_RANK + dim])
    }

    fn args(&self, memory: Operand, sizes: [u64; 2], batch: [u64; MAX_BATCH_RANK]) -> MatrixArgs<Planned> {
        let (row, column) = (self.row_stride, self.column_stride);
        MatrixArgs { memory, first: self.first(sizes, batch) as i64, row, column, batch: self.walked_strides() }
    }
}

impl Problem {
    /// Both factors, as kernels take them whose threads copy.
    pub(super) fn factors(&self, a: Operand, b: Operand) -> [MatrixArgs<Planned>; 2] {
        let Self { m, n, k, batch, .. } = *self;
        [self.a.args(a, [m, k], batch), self.b.transposed().args(b, [n, k], batch)]
    }

    /// Sizes, where a sum has parts of so many products.
    pub(crate) fn sizes(&self, part: u64, parts: u32) -> ProductSizes<Planned> {
        let [m, n, k, part] = [self.m, self.n, self.k, part].map(|size| size as u32);
        ProductSizes { m, n, k, part, parts, batch: self.walked().map(|size| size as u32) }
    }

    /// What the end of a kernel takes.
    pub(crate) fn end(&self, result: Operand, inputs: &[Operand]) -> EpilogueArgs<Planned> {
        let (sizes, batch) = ([self.m, self.result_columns()], self.batch);
        let mut scalars = [0.0; MAX_SCALARS];
        scalars[..self.epilogue.scalars().len()].copy_from_slice(self.epilogue.scalars());
        let input = |i: usize| Some(self.inputs.get(i)?.args(*inputs.get(i)?, sizes, batch));
        EpilogueArgs { result: self.c.args(result, sizes, batch), inputs: std::array::from_fn(input), scalars }
    }
}
