//! Softmax of scores times values.

use warpfold_kernels::Error;
use warpfold_kernels::softmax_v::{Problem, SoftmaxV};

use crate::Tensor;
use crate::tensor::{Allocated, First};

impl Tensor {
    /// `softmax(self) @ values` without the weights in memory: scores `[…, S, T]` and values `[…,
    /// T, D]` give `[…, S, D]`, of their type, or of eight-bit floats as `f32`. Rows of scores have
    /// the rules of [`Tensor::softmax`], and a weight of 0 takes NaN and infinities of its values
    /// as any product does.
    ///
    /// ```
    /// use warpfold::{Device, Profile, Tensor};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let scores = Tensor::from_slice(&[0.0_f32, 0.0, 0.0, -100.0], &[2, 2], &device)?;
    /// let values = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], &[2, 2], &device)?;
    /// assert_eq!(scores.softmax_v(&values)?.to_vec::<f32>()?, [2.0, 3.0, 1.0, 2.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ShapeMismatch`](crate::ErrorKind::ShapeMismatch),
    /// [`DtypeMismatch`](crate::ErrorKind::DtypeMismatch), [`Empty`](crate::ErrorKind::Empty),
    /// [`Unsupported`](crate::ErrorKind::Unsupported) for an element type that is no float.
    pub fn softmax_v(&self, values: &Self) -> Result<Self, Error> {
        let problem = Problem { scores: self.spec(), values: values.spec() };
        let results = problem.results()?;
        let mut outputs = [Allocated::new(self.queue(), results.dtype, results.layout.shape())?];
        First::Read(self).run(&SoftmaxV, problem, &[values], &mut outputs)?;
        let [output] = outputs;
        Ok(output.finish())
    }
}
