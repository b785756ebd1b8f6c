//! Row operators whose result overwrites their first input.

use warpfold_kernels::Error;
use warpfold_kernels::rowwise::RowWise;
use warpfold_kernels::rowwise::operators::RowOp;

use crate::rowwise::{rows, rows_with};
use crate::tensor::First;
use crate::{Axes, NormInputs, Tensor};

/// The results of an in-place norm other than its output.
#[derive(Debug, Clone)]
pub struct NormedInPlace {
    /// The statistics, as [`Tensor::layer_norm`] and [`Tensor::rms_norm`] give them: of layer norm
    /// mean and reciprocal standard deviation, of RMS norm the reciprocal root mean square.
    pub stats: Vec<Tensor>,
    /// Input plus residual, where there is one.
    pub sum: Option<Tensor>,
}

/// Row operators in place: the result overwrites the tensor.
///
/// No clone and no view of the tensor may be left, not even among the other inputs, as some rows
/// are written before others are read. The result must have the tensor's type. A result that is not
/// contiguous in the order of the axes is computed in scratch memory and copied.
///
/// All of them fail with [`SharedMemory`](crate::ErrorKind::SharedMemory) for memory that others
/// see, with [`OverlappingOutput`](crate::ErrorKind::OverlappingOutput) for a tensor that repeats
/// elements, and as the operator does that gives a new tensor.
impl Tensor {
    /// Overwrites the tensor with its [`Tensor::softmax`].
    ///
    /// ```
    /// use warpfold::{Axes, Device, ErrorKind, Profile, Tensor};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let mut x = Tensor::from_slice(&[0.0_f32, 0.0, 1.0, f32::NEG_INFINITY], &[2, 2], &device)?;
    /// x.softmax_in_place(Axes::Of(&[-1]))?;
    /// assert_eq!(x.to_vec::<f32>()?, [0.5, 0.5, 1.0, 0.0]);
    /// let view = x.flip(0)?;
    /// assert_eq!(*x.softmax_in_place(Axes::Of(&[-1])).unwrap_err().kind(), ErrorKind::SharedMemory);
    /// # drop(view);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of this family, above.
    pub fn softmax_in_place<'b>(&mut self, axes: impl Into<Axes<'b>>) -> Result<(), Error> {
        let axes = axes.into();
        rows(RowOp::Softmax { scale: 1.0 }, First::Overwritten(self), &[], &[], axes).map(drop)
    }

    /// Overwrites the tensor with its [`Tensor::masked_softmax`].
    ///
    /// # Errors
    /// Those of this family, above.
    pub fn masked_softmax_in_place<'b>(
        &mut self,
        mask: &Self,
        scale: f64,
        axes: impl Into<Axes<'b>>,
    ) -> Result<(), Error> {
        let axes = axes.into();
        rows(RowOp::Softmax { scale }, First::Overwritten(self), &[mask], &[], axes).map(drop)
    }

    /// Overwrites the tensor with its [`Tensor::log_softmax`].
    ///
    /// # Errors
    /// Those of this family, above.
    pub fn log_softmax_in_place<'b>(&mut self, axes: impl Into<Axes<'b>>) -> Result<(), Error> {
        let axes = axes.into();
        rows(RowOp::LogSoftmax { scale: 1.0 }, First::Overwritten(self), &[], &[], axes).map(drop)
    }

    /// Overwrites the tensor with its [`Tensor::layer_norm`].
    ///
    /// # Errors
    /// Those of this family, above.
    pub fn layer_norm_in_place<'b>(
        &mut self,
        axes: impl Into<Axes<'b>>,
        inputs: NormInputs<'_>,
    ) -> Result<NormedInPlace, Error> {
        let axes = axes.into();
        self.norm_in_place(RowOp::LayerNorm(inputs.norm()?), axes, inputs)
    }

    /// Overwrites the tensor with its [`Tensor::rms_norm`].
    ///
    /// # Errors
    /// Those of this family, above.
    pub fn rms_norm_in_place<'b>(
        &mut self,
        axes: impl Into<Axes<'b>>,
        inputs: NormInputs<'_>,
    ) -> Result<NormedInPlace, Error> {
        let axes = axes.into();
        self.norm_in_place(RowOp::RmsNorm(inputs.norm()?), axes, inputs)
    }

    fn norm_in_place(&mut self, op: RowOp, axes: Axes<'_>, inputs: NormInputs<'_>) -> Result<NormedInPlace, Error> {
        let residual: Vec<_> = inputs.residual.into_iter().collect();
        let done = rows(op, First::Overwritten(self), &residual, &inputs.columns(), axes)?;
        Ok(NormedInPlace { stats: done.stats, sum: done.results.into_iter().next() })
    }

    /// Overwrites the tensor with its [`Tensor::abs_max_scale`]; returns the magnitudes.
    ///
    /// # Errors
    /// Those of this family, above.
    pub fn abs_max_scale_in_place<'b>(&mut self, axes: impl Into<Axes<'b>>) -> Result<Self, Error> {
        let axes = axes.into();
        Ok(rows(RowOp::AbsMaxScale, First::Overwritten(self), &[], &[], axes)?.stats.remove(0))
    }

    /// Overwrites the tensor with its [`Tensor::rowwise`]; returns the results but the first, then
    /// the statistics.
    ///
    /// # Errors
    /// [`DtypeMismatch`](crate::ErrorKind::DtypeMismatch) unless the operator's first result has
    /// the type of its first input, and those of this family, above.
    pub fn rowwise_in_place<'b>(
        &mut self,
        other: Option<&Self>,
        columns: &[&Self],
        operator: &RowWise,
        axes: impl Into<Axes<'b>>,
    ) -> Result<(Vec<Self>, Vec<Self>), Error> {
        let axes = axes.into();
        let others: Vec<_> = other.into_iter().collect();
        let done = rows_with(operator, First::Overwritten(self), &others, columns, axes)?;
        Ok((done.results, done.stats))
    }
}
