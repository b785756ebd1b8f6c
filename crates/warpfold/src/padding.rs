//! Padding by a number or by what is at the edge.

use warpfold_kernels::operations::Number;
use warpfold_kernels::{Error, ErrorKind};

use crate::Tensor;

impl Tensor {
    /// A number around the last axes: so many before and after the last one, then those of the one
    /// before it, as PyTorch's `pad`.
    ///
    /// ```
    /// use warpfold::{Device, Profile, Tensor};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0]], &device)?;
    /// assert_eq!(x.pad(&[1, 0, 0, 1], 9.0)?.to_vec2::<f32>()?, [[9.0, 1.0, 2.0], [9.0, 9.0, 9.0]]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] for an odd count of numbers or for more axes than there are.
    pub fn pad(&self, around: &[usize], number: impl Into<Number>) -> Result<Self, Error> {
        let axes = around.len() / 2;
        if !around.len().is_multiple_of(2) || axes > self.rank() {
            let (count, rank) = (around.len(), self.rank());
            let reason = format!("two numbers per axis are expected for at most {rank} axes, not {count}");
            return Err(ErrorKind::Operand { operator: "pad", reason }.into());
        }
        let number = number.into();
        let mut padded = self.clone();
        for (pair, axis) in around.chunks_exact(2).zip((0..self.rank()).rev()) {
            let part = |size: usize| {
                let mut shape = padded.shape().to_vec();
                shape[axis] = size;
                Self::filled(self.queue(), self.dtype(), number, shape)
            };
            if pair != [0, 0] {
                padded = Self::cat(&[part(pair[0])?, padded.clone(), part(pair[1])?], axis as isize)?;
            }
        }
        Ok(padded)
    }

    /// The first and the last position of an axis so many times more, as candle's.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.pad_with_same(0, 1, 0)?.to_vec::<f32>()?, [3.0, 3.0, 1.0, 2.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::AxisOutOfRange`]; [`ErrorKind::Operand`] for an axis without positions.
    pub fn pad_with_same(&self, axis: isize, before: usize, after: usize) -> Result<Self, Error> {
        let len = self.dim(axis)?;
        if len == 0 {
            let reason = format!("axis {axis} has no positions to repeat");
            return Err(ErrorKind::Operand { operator: "pad_with_same", reason }.into());
        }
        let edge = |position: usize, times: usize| {
            let mut shape = self.shape().to_vec();
            shape[self.axis(axis)?] = times;
            self.narrow(axis, position, 1)?.broadcast(shape)
        };
        Self::cat(&[edge(0, before)?, self.clone(), edge(len - 1, after)?], axis)
    }
}
