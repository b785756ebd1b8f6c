//! Losses.

use warpfold_kernels::cross_entropy::cross_entropy;
use warpfold_kernels::{Error, ErrorKind};

use crate::reduce::fold_with;
use crate::{Axes, Tensor};

/// The label that has no loss, unless another one is said: as PyTorch has it.
pub(crate) const IGNORE_INDEX: i64 = -100;

impl Tensor {
    /// Cross-entropy of logits along the last axis against labels, one integer a row: the loss of each row, and the
    /// logarithm of its sum of exponentials. A row with the label `ignored` (−100 unless said) has the loss 0, one with
    /// a label outside of the axis NaN. A row with a NaN or +∞ has NaN for both, as softmax has; of nothing but -∞ the logarithm
    /// is -∞ and the loss NaN.
    ///
    /// ```
    /// use warpfold::{Device, Profile, Tensor};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let logits = Tensor::from_slice(&device, &[0.0_f32, 0.0, 7.0, 7.0], &[2, 2])?;
    /// let labels = Tensor::from_slice(&device, &[1_i64, -100], &[2])?;
    /// let (loss, _) = logits.cross_entropy(&labels, None)?;
    /// assert_eq!(loss.to_vec::<f32>()?, [2.0_f32.ln(), 0.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::ShapeMismatch`] unless there is a label for each row, [`ErrorKind::Unsupported`] for an element type.
    pub fn cross_entropy(&self, labels: &Self, ignored: Option<i64>) -> Result<(Self, Self), Error> {
        let mismatch =
            || Error::from(ErrorKind::ShapeMismatch { left: self.shape().to_vec(), right: labels.shape().to_vec() });
        let Some((classes, rows)) = self.shape().split_last() else { return Err(mismatch()) };
        if labels.shape() != rows {
            return Err(mismatch());
        }
        if *classes == 0 {
            return Err(ErrorKind::Empty("cross-entropy".to_owned()).into());
        }
        let fold = cross_entropy(self.dtype(), labels.dtype(), ignored.unwrap_or(IGNORE_INDEX))?;
        let labels = labels.unsqueeze(-1)?.broadcast(self.shape())?;
        let mut results = fold_with(&fold, &[self, &labels], Axes::Of(&[-1]))?.into_iter();
        let (Some(loss), Some(log_sum)) = (results.next(), results.next()) else {
            unreachable!("cross-entropy has two results");
        };
        Ok((loss, log_sum))
    }
}
