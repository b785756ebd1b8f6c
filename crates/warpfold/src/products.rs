//! Matrix times vector, histograms, and rows by index.

use warpfold_kernels::gather::{self, Gather, NO_BAD_POSITION};
use warpfold_kernels::gemv::{self, Operands, Product};
use warpfold_kernels::histogram;
use warpfold_kernels::plan::alignment_of;
use warpfold_kernels::{Dtype, Error, ErrorKind};

use crate::Tensor;
use crate::tensor::Allocated;

impl Tensor {
    /// `self @ vector`: `[M, K]` and `[K]` give `[M]`.
    ///
    /// ```
    /// use warpfold::{Device, Profile, Tensor};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let a = Tensor::from_slice(&device, &[1.0_f32, 2.0, 3.0, 4.0], &[2, 2])?;
    /// let x = Tensor::from_slice(&device, &[10.0_f32, 1.0], &[2])?;
    /// assert_eq!(a.gemv(&x)?.to_vec::<f32>()?, [12.0, 34.0]);
    /// assert_eq!(a.transpose()?.gemv(&x)?.to_vec::<f32>()?, [13.0, 24.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::ShapeMismatch`], [`ErrorKind::DtypeMismatch`], [`ErrorKind::Unsupported`] unless they are floats of
    /// 16 to 64 bits.
    pub fn gemv(&self, vector: &Self) -> Result<Self, Error> {
        vector.expect_dtype(self.dtype())?;
        let ([m, k], [len]) = (self.shape(), vector.shape()) else {
            let (left, right) = (self.shape().to_vec(), vector.shape().to_vec());
            return Err(ErrorKind::ShapeMismatch { left, right }.into());
        };
        if k != len {
            return Err(ErrorKind::ShapeMismatch { left: vec![*m, *k], right: vec![*len] }.into());
        }
        let [down, along] = [self.layout().strides()[0], self.layout().strides()[1]];
        // Rows that lie side by side are taken as they are, columns as the rows of the transposed matrix.
        let (matrix, product, rows, columns, row_stride) = match (down, along) {
            (_, 1) => (self.clone(), Product::MatrixVector, *m, *k, down),
            (1, _) => (self.clone(), Product::VectorMatrix, *k, *m, along),
            _ => (self.contiguous()?, Product::MatrixVector, *m, *k, *k as isize),
        };
        let vector = vector.contiguous()?;
        // The kernels count from the first element in memory.
        let lowest = rows.saturating_sub(1) as isize * row_stride.min(0);
        let first = matrix.first.checked_add_signed(lowest).expect("elements lie in the memory");
        let from = Self { first, ..matrix };
        let mut output = Allocated::new(self.queue(), self.dtype(), &[*m])?;
        let operands = Operands { matrix: from.view()?, vector: vector.view()?, result: output.buffer.as_view_mut() };
        let problem = gemv::Problem {
            product,
            dtype: self.dtype(),
            rows: rows as u64,
            columns: columns as u64,
            row_stride: row_stride as i64,
            alignment: Operands::alignment(&operands.matrix, &operands.vector),
        };
        let plan = gemv::Plan::new(problem, self.device().limits())?;
        gemv::launch(self.queue().stream(), &plan, operands, &mut self.queue().workspace())?;
        Ok(output.finish())
    }

    /// How often each of the integers below `bins` comes, as `i32`; other integers are passed over.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] unless the elements are integers.
    pub fn histogram(&self, bins: usize) -> Result<Self, Error> {
        let values = self.contiguous()?;
        let mut output = Allocated::new(self.queue(), Dtype::I32, &[bins])?;
        let problem = histogram::Problem { dtype: self.dtype(), len: self.len() as u64, bins: bins as u64 };
        let plan = histogram::Plan::new(problem, self.device().limits())?;
        histogram::launch(self.queue().stream(), &plan, values.view()?, output.buffer.as_view_mut())?;
        Ok(output.finish())
    }

    /// The rows (positions of the first axis) that `indices` name, negative ones from the end: `[R, …]` and `[n…]` give
    /// `[n…, …]`. Waits for the device, to say whether every index names a row.
    ///
    /// # Errors
    /// [`ErrorKind::IndexOutOfRange`] with the first position whose index names no row, [`ErrorKind::Unsupported`]
    /// unless the indices are integers, [`ErrorKind::AxisOutOfRange`] for a table without axes.
    pub fn gather(&self, indices: &Self) -> Result<Self, Error> {
        let [rows, row_shape @ ..] = self.shape() else {
            return Err(ErrorKind::AxisOutOfRange { axis: 0, rank: 0 }.into());
        };
        let (table, indices) = (self.contiguous()?, indices.contiguous()?);
        let shape = [indices.shape(), row_shape].concat();
        let mut output = Allocated::new(self.queue(), self.dtype(), &shape)?;
        let row_bytes = row_shape.iter().product::<usize>() as u64 * self.dtype().bytes();
        let problem = gather::Problem {
            indices: indices.dtype(),
            count: indices.len() as u64,
            rows: *rows as u64,
            row_bytes,
            row_stride: row_bytes as i64,
            alignment: alignment_of([table.address(), output.buffer.address()]),
        };
        let mut bad = self.device().upload(&[NO_BAD_POSITION])?;
        let outputs = &mut [output.buffer.as_view_mut(), bad.as_view_mut().bytes()];
        self.queue().run(&Gather, problem, &[Some(indices.view()?), Some(table.view()?)], outputs)?;
        let mut position = [NO_BAD_POSITION];
        self.queue().stream().copy_to_host(&bad, &mut position)?;
        match position[0] {
            NO_BAD_POSITION => Ok(output.finish()),
            position => Err(ErrorKind::IndexOutOfRange { position, rows: *rows as u64 }.into()),
        }
    }
}
