//! Views: other shapes of the same memory. Nothing is copied.

use std::ops::{Bound, RangeBounds};

use warpfold_kernels::layout::{Layout, normalize_axes};
use warpfold_kernels::{Error, ErrorKind};

use crate::Tensor;

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
    /// # Errors
    /// [`ErrorKind::NotAPermutation`], [`ErrorKind::AxisOutOfRange`], [`ErrorKind::RepeatedAxis`].
    pub fn permute(&self, axes: &[isize]) -> Result<Self, Error> {
        if axes.len() != self.rank() {
            return Err(ErrorKind::NotAPermutation { axes: axes.to_vec(), rank: self.rank() }.into());
        }
        normalize_axes(axes, self.rank())?;
        let order: Vec<usize> = axes.iter().map(|axis| self.axis(*axis)).collect::<Result<_, _>>()?;
        Ok(self.seen(self.layout.permute(&order)))
    }

    /// The dimensions in reverse order.
    ///
    /// # Errors
    /// None for a tensor that exists; a `Result` as that of [`Tensor::permute`].
    pub fn transpose(&self) -> Result<Self, Error> {
        let axes: Vec<isize> = (0..self.rank() as isize).rev().collect();
        self.permute(&axes)
    }

    /// Part of an axis.
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
            return Err(ErrorKind::SliceOutOfRange { start, end, size }.into());
        }
        let mut shape = self.shape().to_vec();
        shape[axis] = end - start;
        let layout = Layout::new(shape, self.layout.strides().to_vec())?;
        // Nothing is read of an empty view, wherever it begins.
        let step = if layout.is_empty() { 0 } else { start as isize * self.layout.strides()[axis] };
        let first = self.first.checked_add_signed(step).expect("elements lie in the memory");
        Ok(Self { first, ..self.seen(layout) })
    }

    /// An axis in reverse order.
    ///
    /// # Errors
    /// [`ErrorKind::AxisOutOfRange`].
    pub fn flip(&self, axis: isize) -> Result<Self, Error> {
        let axis = self.axis(axis)?;
        let mut strides = self.layout.strides().to_vec();
        let last = self.shape()[axis].saturating_sub(1) as isize * strides[axis];
        strides[axis] = -strides[axis];
        let layout = Layout::new(self.shape().to_vec(), strides)?;
        let step = if layout.is_empty() { 0 } else { last };
        let first = self.first.checked_add_signed(step).expect("elements lie in the memory");
        Ok(Self { first, ..self.seen(layout) })
    }

    /// Another shape with as many elements in the same C order.
    ///
    /// # Errors
    /// [`ErrorKind::ShapeMismatch`] with another number of elements; [`ErrorKind::NotAView`] where
    /// strides cannot say it: make the tensor contiguous first.
    pub fn reshape(&self, shape: &[usize]) -> Result<Self, Error> {
        let len = shape.iter().try_fold(1_usize, |len, size| len.checked_mul(*size));
        if len != Some(self.len()) {
            return Err(ErrorKind::ShapeMismatch { left: self.shape().to_vec(), right: shape.to_vec() }.into());
        }
        let not_a_view = || ErrorKind::NotAView { from: self.shape().to_vec(), to: shape.to_vec() };
        Ok(self.seen(self.layout.reshape(shape)?.ok_or_else(not_a_view)?))
    }

    /// The same elements by repetition in a larger shape.
    ///
    /// # Errors
    /// [`ErrorKind::ShapeMismatch`].
    pub fn broadcast(&self, shape: &[usize]) -> Result<Self, Error> {
        Ok(self.seen(self.layout.broadcast(shape)?))
    }

    /// With an axis of size 1 at this position.
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

#[cfg(test)]
mod tests {
    use warpfold_device::{Device, Profile};

    use super::*;

    #[test]
    fn ranges_that_end_behind_all_numbers_are_refused() {
        let x = Tensor::from_slice(&Device::virtual_gpu(Profile::H200), &[1.0_f32, 2.0], &[2]).unwrap();
        let refused = |range: (Bound<usize>, Bound<usize>)| x.slice(0, range).unwrap_err().kind().clone();
        for range in [
            (Bound::Unbounded, Bound::Included(usize::MAX)),
            (Bound::Excluded(usize::MAX), Bound::Unbounded),
            (Bound::Included(1), Bound::Excluded(0)),
        ] {
            assert!(matches!(refused(range), ErrorKind::SliceOutOfRange { .. }), "{range:?}");
        }
        assert_eq!(x.slice(0, ..=1).unwrap().shape(), [2]);
    }
}
