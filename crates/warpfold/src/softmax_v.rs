//! Softmax of scores times values.

use warpfold_kernels::softmax_v::{Problem, softmax_v};
use warpfold_kernels::{Error, ErrorKind};

use crate::Tensor;
use crate::tensor::Allocated;

impl Tensor {
    /// `softmax(self) @ values` without the weights in memory: scores `[…, S, T]` and values `[…, T, D]` give `[…, S, D]`, of
    /// their type, or of eight-bit floats as `f32`. Rows of scores have the rules of [`Tensor::softmax`], and a weight of 0 takes
    /// NaN and infinities of its values as any product does.
    ///
    /// ```
    /// use warpfold::{Device, Profile, Tensor};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let scores = Tensor::from_slice(&device, &[0.0_f32, 0.0, 0.0, -100.0], &[2, 2])?;
    /// let values = Tensor::from_slice(&device, &[1.0_f32, 2.0, 3.0, 4.0], &[2, 2])?;
    /// assert_eq!(scores.softmax_v(&values)?.to_vec::<f32>()?, [2.0, 3.0, 1.0, 2.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::ShapeMismatch`], [`ErrorKind::DtypeMismatch`], [`ErrorKind::Unsupported`] for an element type
    /// that is no float.
    pub fn softmax_v(&self, values: &Self) -> Result<Self, Error> {
        values.expect_dtype(self.dtype())?;
        let mismatch =
            || Error::from(ErrorKind::ShapeMismatch { left: self.shape().to_vec(), right: values.shape().to_vec() });
        let ([batch @ .., rows, len], [batch_of_values @ .., len_of_values, width]) = (self.shape(), values.shape())
        else {
            return Err(mismatch());
        };
        if batch != batch_of_values || len != len_of_values {
            return Err(mismatch());
        }
        if *len == 0 {
            return Err(ErrorKind::Empty("softmax-v".to_owned()).into());
        }
        let (scores, values) = (self.contiguous()?, values.contiguous()?);
        let problem =
            Problem { dtype: self.dtype(), batch: batch.iter().product(), rows: *rows, len: *len, width: *width };
        let mut output = Allocated::new(self.queue(), problem.output(), &[batch, &[*rows, *width]].concat())?;
        let stream = self.queue().stream();
        softmax_v(stream, &problem, scores.view()?, values.view()?, output.buffer.as_view_mut())?;
        Ok(output.finish())
    }
}
