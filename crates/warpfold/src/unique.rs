//! How many distinct elements there are.

use warpfold_kernels::unique::{Problem, UniqueTables};
use warpfold_kernels::{Dtype, Error};

use crate::tensor::Allocated;
use crate::{Axes, Tensor};

impl Tensor {
    /// How many different elements there are along some axes together, as `i64`. All NaN are one
    /// element, and so are -0 and +0; of nothing there are none. Takes four to eight words of 64
    /// bits an element while it runs, fewer for elements of 8 and 16 bits.
    ///
    /// ```
    /// use warpfold::{Axes, Device, Profile, Tensor};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::from_slice(&device, &[1.0_f32, f32::NAN, 1.0, 0.0, -0.0, f32::NAN], &[2, 3])?;
    /// assert_eq!(x.unique_count(Axes::Of(&[-1]))?.to_vec::<i64>()?, [2, 2]);
    /// assert_eq!(x.unique_count(Axes::All)?.to_vec::<i64>()?, [3]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`TooLarge`](crate::ErrorKind::TooLarge), and those of [`Axes::resolve`].
    pub fn unique_count(&self, axes: Axes<'_>) -> Result<Self, Error> {
        let folded = axes.resolve(self.rank())?;
        let kept: Vec<usize> = (0..self.rank()).filter(|axis| !folded.contains(axis)).collect();
        let order: Vec<isize> = kept.iter().chain(&folded).map(|axis| *axis as isize).collect();
        let size_of = |axes: &[usize]| axes.iter().map(|axis| self.shape()[*axis]).collect::<Vec<_>>();
        let (shape, row_shape) = (size_of(&kept), size_of(&folded));
        let num_rows: usize = shape.iter().product();
        let problem =
            Problem { dtype: self.dtype(), rows: num_rows as u64, row_len: row_shape.iter().product::<usize>() as u64 };
        let words = problem.words_per_row()? as usize;
        let rows = self.permute(&order)?.contiguous()?;
        let mut tables = Allocated::new(self.queue(), Dtype::U64, &[num_rows, words])?;
        let outputs = &mut [tables.buffer.as_view_mut()];
        self.queue().run(&UniqueTables, problem, &[Some(rows.memory_view()?)], outputs)?;
        tables.finish().count_nonzero(Axes::Of(&[-1]))?.reshape(&shape)
    }
}
