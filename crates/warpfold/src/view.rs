//! Views: other shapes of the same memory. Nothing is copied, but by `reshape` where it must.

use std::ops::{Bound, RangeBounds};

use warpfold_kernels::layout::{Layout, normalize_axes};
use warpfold_kernels::{Error, ErrorKind};

use crate::{Axes, NewShape, Shape, Tensor};

impl Tensor {
    fn seen(&self, layout: Layout) -> Self {
        Self { layout, ..self.clone() }
    }

    /// The axis as a position.
    pub(crate) fn axis(&self, axis: isize) -> Result<usize, Error> {
        Ok(normalize_axes(&[axis], self.rank())?[0])
    }

    /// The dimensions in another order; `axes` names each once.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.permute((1, 0))?.to_vec::<f32>()?, [1.0, 3.0, 2.0, 4.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::NotAPermutation`], [`ErrorKind::AxisOutOfRange`], [`ErrorKind::RepeatedAxis`].
    pub fn permute<'b>(&self, axes: impl Into<Axes<'b>>) -> Result<Self, Error> {
        let axes = axes.into();
        let order = axes.in_order(self.rank())?;
        if order.len() != self.rank() {
            return Err(ErrorKind::NotAPermutation { axes: axes.named(self.rank())?, rank: self.rank() }.into());
        }
        Ok(self.seen(self.layout.permute(&order)))
    }

    /// Two dimensions in each other's place, as PyTorch's and candle's `transpose`. [`Tensor::t`]
    /// exchanges the last two, [`Tensor::reverse_axes`] reverses all.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.transpose(0, 1)?.to_vec::<f32>()?, [1.0, 3.0, 2.0, 4.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::AxisOutOfRange`].
    pub fn transpose(&self, first: isize, second: isize) -> Result<Self, Error> {
        let mut order: Vec<usize> = (0..self.rank()).collect();
        order.swap(self.axis(first)?, self.axis(second)?);
        Ok(self.seen(self.layout.permute(&order)))
    }

    /// The last two dimensions in each other's place: the transpose of a matrix, or of each matrix
    /// of a batch. A tensor of fewer dimensions stays as it is.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.t()?.to_vec::<f32>()?, [1.0, 3.0, 2.0, 4.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// None for a tensor that exists; a `Result` as that of [`Tensor::transpose`].
    pub fn t(&self) -> Result<Self, Error> {
        if self.rank() < 2 { Ok(self.clone()) } else { self.transpose(-2, -1) }
    }

    /// The dimensions in reverse order, as NumPy's `T`.
    ///
    /// ```
    /// # use warpfold::{Device, Dtype, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::zeros((2, 3, 4), Dtype::F32, &device)?;
    /// assert_eq!(x.reverse_axes()?.shape(), [4, 3, 2]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// None for a tensor that exists; a `Result` as that of [`Tensor::permute`].
    pub fn reverse_axes(&self) -> Result<Self, Error> {
        let order: Vec<usize> = (0..self.rank()).rev().collect();
        Ok(self.seen(self.layout.permute(&order)))
    }

    /// Part of an axis.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.slice(0, 1..)?.to_vec::<f32>()?, [1.0, 2.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::AxisOutOfRange`], [`ErrorKind::SliceOutOfRange`].
    pub fn slice(&self, axis: isize, range: impl RangeBounds<usize>) -> Result<Self, Error> {
        let axis = self.axis(axis)?;
        let size = self.shape()[axis];
        let start = match range.start_bound() {
            Bound::Included(start) => *start,
            Bound::Excluded(before) => before.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(last) => last.saturating_add(1),
            Bound::Excluded(end) => *end,
            Bound::Unbounded => size,
        };
        if start > end || end > size {
            return Err(ErrorKind::SliceOutOfRange { axis, start, end, size }.into());
        }
        let mut shape = self.shape().to_vec();
        shape[axis] = end - start;
        let layout = Layout::new(shape, self.layout.strides().to_vec())?;
        // Nothing is read of an empty view, wherever it begins.
        let step = if layout.is_empty() { 0 } else { start as isize * self.layout.strides()[axis] };
        let first = self.first.checked_add_signed(step).expect("elements lie in the memory");
        Ok(Self { first, ..self.seen(layout) })
    }

    /// Axes in reverse order.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.flip(0)?.to_vec::<f32>()?, [2.0, 1.0, 3.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::AxisOutOfRange`], [`ErrorKind::RepeatedAxis`].
    pub fn flip<'b>(&self, axes: impl Into<Axes<'b>>) -> Result<Self, Error> {
        axes.into().resolve(self.rank())?.into_iter().try_fold(self.clone(), |tensor, axis| tensor.flipped(axis))
    }

    fn flipped(&self, axis: usize) -> Result<Self, Error> {
        let mut strides = self.layout.strides().to_vec();
        let last = self.shape()[axis].saturating_sub(1) as isize * strides[axis];
        strides[axis] = -strides[axis];
        let layout = Layout::new(self.shape().to_vec(), strides)?;
        let step = if layout.is_empty() { 0 } else { last };
        let first = self.first.checked_add_signed(step).expect("elements lie in the memory");
        Ok(Self { first, ..self.seen(layout) })
    }

    /// Another shape with as many elements in the same C order: a view where strides can say it,
    /// else of a contiguous copy. One size may be left to the others: `()` in a tuple, -1 in an
    /// array.
    ///
    /// ```
    /// use warpfold::{Device, Profile, Tensor};
    ///
    /// let x = Tensor::arange(0_i32, 6, &Device::virtual_gpu(Profile::H200))?;
    /// assert_eq!(x.reshape((2, ()))?.t()?.reshape(6)?.to_vec::<i32>()?, [0, 3, 1, 4, 2, 5]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] with another number of elements, with both numbers.
    pub fn reshape(&self, shape: impl Into<NewShape>) -> Result<Self, Error> {
        let shape = shape.into().resolve(self.shape())?;
        match self.layout.reshape(&shape)? {
            Some(layout) => Ok(self.seen(layout)),
            None => self.copy()?.view(&shape),
        }
    }

    /// Another shape with as many elements in the same C order, without a copy.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.view(4)?.dims(), [4]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::NotAView`] where strides cannot say it: [`Tensor::reshape`] copies then; those
    /// of [`Tensor::reshape`].
    pub fn view(&self, shape: impl Into<NewShape>) -> Result<Self, Error> {
        let shape = shape.into().resolve(self.shape())?;
        let not_a_view = || ErrorKind::NotAView { from: self.shape().to_vec(), to: shape.clone() };
        Ok(self.seen(self.layout.reshape(&shape)?.ok_or_else(not_a_view)?))
    }

    /// The dimensions from one to another, which goes too, as one: a view where it can be.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.flatten(0, 1)?.dims(), [4]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::AxisOutOfRange`]; [`ErrorKind::Operand`] if the last comes before the first.
    pub fn flatten(&self, first: isize, last: isize) -> Result<Self, Error> {
        if self.rank() == 0 {
            return self.reshape(1_usize);
        }
        let (first, last) = (self.axis(first)?, self.axis(last)?);
        if first > last {
            let reason = format!("axis {first} is after axis {last}");
            return Err(ErrorKind::Operand { operator: "flatten", reason }.into());
        }
        let (before, after) = (&self.shape()[..first], &self.shape()[last + 1..]);
        let size: usize = self.shape()[first..=last].iter().product();
        self.reshape([before, &[size], after].concat())
    }

    /// All dimensions as one.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.flatten_all()?.dims(), [4]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// What the device says of the copy, where one is needed.
    pub fn flatten_all(&self) -> Result<Self, Error> {
        self.reshape(self.len())
    }

    /// The dimensions from this one on as one, as PyTorch's `flatten(start_dim)`.
    ///
    /// ```
    /// # use warpfold::{Device, Dtype, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::zeros((2, 3, 4), Dtype::F32, &device)?;
    /// assert_eq!(x.flatten_from(1)?.shape(), [2, 12]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::flatten`].
    pub fn flatten_from(&self, first: isize) -> Result<Self, Error> {
        self.flatten(first, -1)
    }

    /// The dimensions up to this one as one.
    ///
    /// ```
    /// # use warpfold::{Device, Dtype, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::zeros((2, 3, 4), Dtype::F32, &device)?;
    /// assert_eq!(x.flatten_to(1)?.shape(), [6, 4]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::flatten`].
    pub fn flatten_to(&self, last: isize) -> Result<Self, Error> {
        self.flatten(0, last)
    }

    /// The same elements by repetition in a larger shape.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.broadcast((2, 3))?.dims(), [2, 3]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::ShapeMismatch`].
    pub fn broadcast(&self, shape: impl Into<Shape>) -> Result<Self, Error> {
        Ok(self.seen(self.layout.broadcast(shape.into().sizes())?))
    }

    /// Without an axis of size 1; an axis of another size stays, as in PyTorch.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.unsqueeze(0)?.squeeze(0)?.dims(), [3]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::AxisOutOfRange`].
    pub fn squeeze(&self, axis: isize) -> Result<Self, Error> {
        let axis = self.axis(axis)?;
        if self.shape()[axis] != 1 {
            return Ok(self.clone());
        }
        let (mut shape, mut strides) = (self.shape().to_vec(), self.layout.strides().to_vec());
        shape.remove(axis);
        strides.remove(axis);
        Ok(self.seen(Layout::new(shape, strides)?))
    }

    /// With an axis of size 1 at this position.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.unsqueeze(0)?.dims(), [1, 3]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::AxisOutOfRange`], [`ErrorKind::TooManyDimensions`].
    pub fn unsqueeze(&self, axis: isize) -> Result<Self, Error> {
        let position = normalize_axes(&[axis], self.rank() + 1)?[0];
        let (mut shape, mut strides) = (self.shape().to_vec(), self.layout.strides().to_vec());
        shape.insert(position, 1);
        strides.insert(position, 1);
        Ok(self.seen(Layout::new(shape, strides)?))
    }
}
