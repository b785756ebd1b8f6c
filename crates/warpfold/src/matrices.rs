//! Tensors as batches of matrices: what shapes make of a product, and the layout of factors.

use warpfold_kernels::layout::{Layout, broadcast_shape};
use warpfold_kernels::matmul::Matrix;
use warpfold_kernels::plan::alignment_of;
use warpfold_kernels::{Dtype, Error, ErrorKind};

use crate::Tensor;

/// A tensor as a batch of matrices.
pub(crate) struct MatrixView {
    pub(crate) tensor: Tensor,
    pub(crate) layout: Layout,
}

impl MatrixView {
    /// A tensor's layout with the axes of the batch, repeated where they are missing.
    pub(crate) fn new(tensor: &Tensor, layout: Layout, batch: &[usize]) -> Result<Self, Error> {
        let [.., rows, columns] = *layout.shape() else { unreachable!("a matrix has two axes") };
        let layout = layout.broadcast(&[batch, &[rows, columns]].concat())?;
        Ok(Self { tensor: tensor.clone(), layout })
    }

    /// Returns the strides and the alignment of the matrices.
    pub(crate) fn matrix(&self) -> Result<Matrix, Error> {
        let address = self.tensor.view_of_all()?.address();
        Ok(Matrix { alignment: alignment_of([address]), ..matrix(self.tensor.dtype(), &self.layout) })
    }
}

/// Matrices of a layout at a multiple of 16 bytes.
pub(crate) fn matrix(dtype: Dtype, layout: &Layout) -> Matrix {
    let [batch @ .., down, along] = layout.strides() else { unreachable!("a matrix has two axes") };
    let mut batch_strides = [0; Matrix::MAX_BATCH_RANK];
    for (place, stride) in batch_strides.iter_mut().rev().zip(batch.iter().rev()) {
        *place = *stride as i64;
    }
    let (row_stride, column_stride) = (*down as i64, *along as i64);
    Matrix { row_stride, column_stride, batch_strides, ..Matrix::rows(dtype, 0) }
}

/// The granularity of a scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScaleOf {
    Rows,
    Columns,
    All,
}

/// The GEMM sizes of two shapes.
pub(crate) struct Shapes {
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    pub(crate) batch: Vec<usize>,
    /// The result, without the axes that a left row and a right column do not have.
    pub(crate) result: Vec<usize>,
    is_row: bool,
    is_column: bool,
}

impl Shapes {
    pub(crate) fn of(left: &[usize], right: &[usize]) -> Result<Self, Error> {
        let refused = |what: &str| {
            let reason = format!("{what}: the left factor is {left:?}, the right {right:?}");
            Error::from(ErrorKind::Operand { operator: "matmul", reason })
        };
        let (batch_left, m, k, is_row) = match left {
            [] => return Err(refused("no axes on the left")),
            [k] => (&[][..], 1, *k, true),
            [batch @ .., m, k] => (batch, *m, *k, false),
        };
        let (batch_right, k_right, n, is_column) = match right {
            [] => return Err(refused("no axes on the right")),
            [k] => (&[][..], *k, 1, true),
            [batch @ .., k, n] => (batch, *k, *n, false),
        };
        if k != k_right {
            return Err(refused(&format!("inner {k} and {k_right}")));
        }
        let batch = broadcast_shape(&[batch_left, batch_right])
            .map_err(|_| refused(&format!("batches {batch_left:?} and {batch_right:?}")))?;
        let mut result = batch.clone();
        result.extend((!is_row).then_some(m));
        result.extend((!is_column).then_some(n));
        Ok(Self { m, n, k, batch, result, is_row, is_column })
    }

    /// A layout with an axis of size 1 at a place counted from the end.
    fn with_axis(layout: &Layout, from_end: usize) -> Result<Layout, Error> {
        let (mut shape, mut strides) = (layout.shape().to_vec(), layout.strides().to_vec());
        let place = shape.len() - from_end;
        shape.insert(place, 1);
        strides.insert(place, 0);
        Layout::new(shape, strides)
    }

    pub(crate) fn left_as(&self, layout: &Layout) -> Result<Layout, Error> {
        if self.is_row { Self::with_axis(layout, 1) } else { Ok(layout.clone()) }
    }

    pub(crate) fn right_as(&self, layout: &Layout) -> Result<Layout, Error> {
        if self.is_column { Self::with_axis(layout, 0) } else { Ok(layout.clone()) }
    }

    /// A layout of the result's shape, as that of matrices.
    pub(crate) fn result_as(&self, layout: &Layout) -> Result<Layout, Error> {
        let with_column = if self.is_column { Self::with_axis(layout, 0)? } else { layout.clone() };
        if self.is_row { Self::with_axis(&with_column, 1) } else { Ok(with_column) }
    }

    /// A scale as large as the result.
    pub(crate) fn scale(&self, scale: &Tensor, of: ScaleOf) -> Result<MatrixView, Error> {
        if scale.dtype() != Dtype::F32 {
            return Err(ErrorKind::Unsupported { op: "a scale of matmul".to_owned(), dtype: scale.dtype() }.into());
        }
        let (lines, from_end) = match of {
            ScaleOf::Rows => ([self.m, 1], 0),
            ScaleOf::Columns => ([1, self.n], 1),
            ScaleOf::All => ([1, 1], 0),
        };
        let fits = |shape: [usize; 2]| shape.iter().zip(lines).all(|(size, most)| *size == most || *size == 1);
        let mismatch = || {
            let expected = [&self.batch[..], &lines].concat();
            Error::from(ErrorKind::ShapeMismatch { left: expected, right: scale.shape().to_vec() })
        };
        let layout = match scale.shape() {
            shape if shape.iter().all(|size| *size == 1) => Layout::new(vec![1, 1], vec![0, 0])?,
            [len] if *len == lines[from_end] => Self::with_axis(scale.layout(), from_end)?,
            [.., rows, columns] if fits([*rows, *columns]) => scale.layout().clone(),
            _ => return Err(mismatch()),
        };
        let [rows, columns] = [self.m, self.n];
        let layout = layout.broadcast(&[&self.batch[..], &[rows, columns]].concat()).map_err(|_| mismatch())?;
        Ok(MatrixView { tensor: scale.clone(), layout })
    }
}
