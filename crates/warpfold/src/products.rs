//! GEMV, histograms, and gathers of rows by index.

use warpfold_device::ViewMut;
use warpfold_kernels::gather::{self, Gather};
use warpfold_kernels::gemv::{self, Gemv};
use warpfold_kernels::histogram::{self, Histogram};
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
    /// let a = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], &[2, 2], &device)?;
    /// let x = Tensor::from_slice(&[10.0_f32, 1.0], &[2], &device)?;
    /// assert_eq!(a.gemv(&x)?.to_vec::<f32>()?, [12.0, 34.0]);
    /// assert_eq!(a.t()?.gemv(&x)?.to_vec::<f32>()?, [13.0, 24.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] for the shapes, [`ErrorKind::DtypeMismatch`],
    /// [`ErrorKind::Unsupported`] unless they are floats of 16 to 64 bits.
    pub fn gemv(&self, vector: &Self) -> Result<Self, Error> {
        vector.expect_dtype("the vector", self.dtype())?;
        let ([m, k], [len]) = (self.shape(), vector.shape()) else {
            let reason = format!("a matrix and a vector have {:?} and {:?}", self.shape(), vector.shape());
            return Err(ErrorKind::Operand { operator: "gemv", reason }.into());
        };
        if k != len {
            let reason = format!("inner {k} and {len}: the matrix is {:?}, the vector {:?}", [m, k], [len]);
            return Err(ErrorKind::Operand { operator: "gemv", reason }.into());
        }
        let (m, k) = (*m as u64, *k as u64);
        let strides = [0, 1].map(|axis| self.layout().strides()[axis] as i64);
        let (matrix, strides) =
            if strides.contains(&1) { (self.clone(), strides) } else { (self.contiguous()?, [k as i64, 1]) };
        let vector = vector.contiguous()?;
        let (matrix, vector) = (matrix.view_of_all()?, vector.memory_view()?);
        let alignment = alignment_of([matrix.address(), vector.address()]);
        let problem = gemv::Problem::of_strides(self.dtype(), [m, k], strides, alignment).expect("one stride is 1");
        let mut output = Allocated::new(self.queue(), self.dtype(), &[m as usize])?;
        self.queue().run(&Gemv, problem, &[Some(matrix), Some(vector)], &mut [output.buffer.as_view_mut()])?;
        Ok(output.finish())
    }

    /// Counts the occurrences of each integer in `0..bins`, as `i32`; other integers are skipped.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[0_i32, 2, 2, 5], &device)?;
    /// assert_eq!(x.histogram(3)?.to_vec::<i32>()?, [1, 0, 2]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] unless the elements are integers.
    pub fn histogram(&self, bins: usize) -> Result<Self, Error> {
        let values = self.contiguous()?;
        let mut output = Allocated::new(self.queue(), Dtype::I32, &[bins])?;
        let problem = histogram::Problem { dtype: self.dtype(), len: self.len() as u64, bins: bins as u64 };
        self.queue().run(&Histogram, problem, &[Some(values.memory_view()?)], &mut [output.buffer.as_view_mut()])?;
        Ok(output.finish())
    }

    /// The rows (positions of the first axis) that `indices` name, negative ones from the end:
    /// `[R, …]` and `[n…]` give `[n…, …]`. Waits for the device, to say whether every index names a
    /// row.
    ///
    /// # Errors
    /// [`ErrorKind::IndexOutOfRange`] with the first position whose index names no row,
    /// [`ErrorKind::Unsupported`] unless the indices are integers, [`ErrorKind::AxisOutOfRange`]
    /// for a table without axes.
    pub fn gather_rows(&self, indices: &Self) -> Result<Self, Error> {
        let mut bad = self.device().upload(&[Gather::NO_BAD_POSITION])?;
        let rows = self.gather_to(indices, bad.as_view_mut().bytes())?;
        let mut position = [Gather::NO_BAD_POSITION];
        self.queue().stream().copy_to_host(&bad, &mut position)?;
        match position[0] {
            Gather::NO_BAD_POSITION => Ok(rows),
            position => Err(ErrorKind::IndexOutOfRange { position, rows: self.shape()[0] as u64 }.into()),
        }
    }

    /// Variant of [`Tensor::gather_rows`] for indices known to be in bounds: does not synchronise
    /// and can be captured. An index that names none gives a row of zeros.
    ///
    /// # Errors
    /// Those of [`Tensor::gather_rows`] but the first.
    pub fn gather_rows_known(&self, indices: &Self) -> Result<Self, Error> {
        let mut bad = Allocated::new(self.queue(), Dtype::U64, &[1])?;
        if !self.queue().is_outline() {
            self.queue().stream().fill_bytes(bad.buffer.view_mut(..8)?, 0xff)?;
        }
        let view = bad.buffer.view_mut(..8)?;
        self.gather_to(indices, view)
    }

    /// Gathers; `bad` is the word for positions whose index names no row.
    fn gather_to(&self, indices: &Self, bad: ViewMut<'_, u8>) -> Result<Self, Error> {
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
        let outputs = &mut [output.buffer.as_view_mut(), bad];
        self.queue().run(&Gather, problem, &[Some(indices.memory_view()?), Some(table.memory_view()?)], outputs)?;
        Ok(output.finish())
    }
}
