//! Sorted tensors.

use warpfold_kernels::sort::{Problem, Sort};
use warpfold_kernels::{Dtype, Error};

use crate::Tensor;
use crate::tensor::Allocated;

impl Tensor {
    /// The elements in order along an axis, the smallest first, and the positions that they had, as
    /// `i64`. Equal elements keep their order, -0 and +0 are equal, and NaN comes last.
    ///
    /// ```
    /// use warpfold::{Device, Profile, Tensor};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::from_slice(&[3.0_f32, 1.0, 2.0, 1.0], &[4], &device)?;
    /// let (sorted, positions) = x.sort(0)?;
    /// assert_eq!(sorted.to_vec::<f32>()?, [1.0, 1.0, 2.0, 3.0]);
    /// assert_eq!(positions.to_vec::<i64>()?, [1, 3, 2, 0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`AxisOutOfRange`](crate::ErrorKind::AxisOutOfRange),
    /// [`TooLarge`](crate::ErrorKind::TooLarge) for an axis of more than 2^30 elements.
    pub fn sort(&self, axis: isize) -> Result<(Self, Self), Error> {
        self.in_order(axis, false)
    }

    /// Variant of [`Tensor::sort`] in descending order, with NaN before all numbers. Equal elements
    /// keep their order here, too.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.sort_descending(0)?.0.to_vec::<f32>()?, [3.0, 2.0, 1.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::sort`].
    pub fn sort_descending(&self, axis: isize) -> Result<(Self, Self), Error> {
        self.in_order(axis, true)
    }

    /// The positions that put an axis in order, the smallest first: see [`Tensor::sort`].
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.argsort(0)?.to_vec::<i64>()?, [1, 2, 0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::sort`].
    pub fn argsort(&self, axis: isize) -> Result<Self, Error> {
        Ok(self.sort(axis)?.1)
    }

    /// The positions that put an axis in order, the largest first: see [`Tensor::sort_descending`].
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.argsort_descending(0)?.to_vec::<i64>()?, [0, 2, 1]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::sort`].
    pub fn argsort_descending(&self, axis: isize) -> Result<Self, Error> {
        Ok(self.sort_descending(axis)?.1)
    }

    /// The last axis in order, and the positions that its elements had, as candle's.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.sort_last_dim(true)?.0.to_vec::<f32>()?, [1.0, 2.0, 3.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::sort`].
    pub fn sort_last_dim(&self, ascending: bool) -> Result<(Self, Self), Error> {
        self.in_order(-1, !ascending)
    }

    /// The positions that put the last axis in order, as candle's.
    ///
    /// ```
    /// # use warpfold::{DType, Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.arg_sort_last_dim(true)?.to_dtype(DType::F32)?.to_vec::<f32>()?, [1.0, 2.0, 0.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::sort`].
    pub fn arg_sort_last_dim(&self, ascending: bool) -> Result<Self, Error> {
        Ok(self.sort_last_dim(ascending)?.1)
    }

    fn in_order(&self, axis: isize, descending: bool) -> Result<(Self, Self), Error> {
        let axis = self.axis(axis)?;
        // The axis goes last and comes back.
        let last: Vec<isize> =
            (0..self.rank()).filter(|other| *other != axis).chain([axis]).map(|axis| axis as isize).collect();
        let mut back = vec![0; last.len()];
        last.iter().enumerate().for_each(|(place, axis)| back[*axis as usize] = place as isize);
        let rows = self.permute(&last)?.contiguous()?;
        let len = self.shape()[axis] as u64;
        let problem = Problem { dtype: self.dtype(), rows: self.len() as u64 / len.max(1), len, descending };
        let mut sorted = Allocated::new(self.queue(), self.dtype(), rows.shape())?;
        let mut positions = Allocated::new(self.queue(), Dtype::I64, rows.shape())?;
        let outputs = &mut [sorted.buffer.as_view_mut(), positions.buffer.as_view_mut()];
        self.queue().run(&Sort, problem, &[Some(rows.memory_view()?)], outputs)?;
        Ok((sorted.finish().permute(&back)?, positions.finish().permute(&back)?))
    }

    /// The `k`th smallest element along an axis, counted from 1, and its position: of equals the
    /// first in order.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.kthvalue(1, 0)?.0.to_scalar::<f32>()?, 1.0);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Operand`](warpfold_kernels::ErrorKind::Operand) unless the axis has so many elements; those
    /// of [`Tensor::sort`].
    pub fn kthvalue(&self, k: usize, axis: isize) -> Result<(Self, Self), Error> {
        let len = self.dim(axis)?;
        if !(1..=len).contains(&k) {
            let reason = format!("axis {axis} has {len} element(s), and no {k}th smallest");
            return Err(warpfold_kernels::ErrorKind::Operand { operator: "kthvalue", reason }.into());
        }
        let (values, positions) = self.sort(axis)?;
        let at = k as isize - 1;
        Ok((values.select(axis, at)?, positions.select(axis, at)?))
    }

    /// The median along an axis, of an even count the lower one, and its position, as PyTorch's.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.median(0)?.0.to_scalar::<f32>()?, 2.0);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::kthvalue`].
    pub fn median(&self, axis: isize) -> Result<(Self, Self), Error> {
        self.kthvalue(self.dim(axis)?.div_ceil(2), axis)
    }
}
