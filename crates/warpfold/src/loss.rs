//! Losses.

use warpfold_kernels::cross_entropy::{CrossEntropyLoss, Problem};
use warpfold_kernels::{Error, ErrorKind};

use crate::Tensor;
use crate::tensor::{Allocated, First};

/// The label that has no loss, unless another one is said: as PyTorch has it.
pub(crate) const IGNORE_INDEX: i64 = -100;

impl Tensor {
    /// Cross-entropy of logits along the last axis against labels, one integer a row: the loss of
    /// each row, and the logarithm of its sum of exponentials. A row with the label `ignored` (−100
    /// unless said) has the loss 0, one with a label outside of the axis NaN. A row with a NaN or
    /// +∞ has NaN for both, as softmax has; of -∞ only the logarithm is -∞ and the loss NaN.
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
    /// [`ErrorKind::Operand`] unless there is a label for each row,
    /// [`ErrorKind::Unsupported`] for an element type.
    pub fn cross_entropy(&self, labels: &Self, ignored: Option<i64>) -> Result<(Self, Self), Error> {
        let Some((classes, rows)) = self.shape().split_last() else {
            let reason = "the logits have no axis of classes".to_owned();
            return Err(ErrorKind::Operand { operator: "cross-entropy", reason }.into());
        };
        if *classes == 0 {
            return Err(ErrorKind::Empty("cross-entropy".to_owned()).into());
        }
        let problem = Problem { logits: self.spec(), labels: labels.spec(), ignored: ignored.unwrap_or(IGNORE_INDEX) };
        let new = || Allocated::new(self.queue(), self.dtype(), rows);
        let mut outputs = [new()?, new()?];
        First::Read(self).run(&CrossEntropyLoss, problem, &[labels], &mut outputs)?;
        Ok(outputs.map(Allocated::finish).into())
    }
}
