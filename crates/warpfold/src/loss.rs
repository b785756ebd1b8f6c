//! Losses.

use warpfold_kernels::cross_entropy::{CrossEntropyLoss, Problem};
use warpfold_kernels::{Dtype, Error, ErrorKind};

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
    /// let logits = Tensor::from_slice(&[0.0_f32, 0.0, 7.0, 7.0], &[2, 2], &device)?;
    /// let labels = Tensor::from_slice(&[1_i64, -100], &[2], &device)?;
    /// let (loss, _) = logits.cross_entropy_rows(&labels, None)?;
    /// assert_eq!(loss.to_vec::<f32>()?, [2.0_f32.ln(), 0.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] unless there is a label for each row,
    /// [`ErrorKind::Unsupported`] for an element type.
    pub fn cross_entropy_rows(&self, labels: &Self, ignored: Option<i64>) -> Result<(Self, Self), Error> {
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

    /// The mean of [`Tensor::cross_entropy_rows`] over all rows whose label is not −100: the loss
    /// that PyTorch's and candle's functions of this name give.
    ///
    /// ```
    /// use warpfold::{Device, Profile, Tensor};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let logits = Tensor::new(&[[0_f32, 0.0], [7.0, 7.0]], &device)?;
    /// let labels = Tensor::new(&[1_i64, -100], &device)?;
    /// assert_eq!(logits.cross_entropy(&labels)?.to_scalar::<f32>()?, 2_f32.ln());
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::cross_entropy_rows`].
    pub fn cross_entropy(&self, labels: &Self) -> Result<Self, Error> {
        self.cross_entropy_rows(labels, None)?.0.mean_of_labelled(labels)
    }

    /// Minus the logarithms of probabilities (along the last axis) at the labels, one a row: their
    /// mean over all rows whose label is not −100.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert!((x.log_softmax(1)?.nll_loss(&Tensor::new(&[1_u32, 1], &device)?)?.to_scalar::<f32>()? - 0.313_261_7).abs() < 1e-6);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::gather`].
    pub fn nll_loss(&self, labels: &Self) -> Result<Self, Error> {
        let positions = labels.to_dtype(Dtype::I64)?;
        let known = positions.masked_fill(&positions.eq(IGNORE_INDEX)?, 0)?;
        let losses = self.gather(&known.unsqueeze(-1)?, -1)?.squeeze(-1)?.neg()?;
        losses.masked_fill(&positions.eq(IGNORE_INDEX)?, 0)?.mean_of_labelled(labels)
    }

    fn mean_of_labelled(&self, labels: &Self) -> Result<Self, Error> {
        let labelled = labels.to_dtype(Dtype::I64)?.ne(IGNORE_INDEX)?.count_nonzero_all()?;
        self.sum_all()?.div(&labelled.to_dtype(self.dtype())?)
    }

    /// The [`Tensor::huber_loss`] divided by `beta`: the mean, as PyTorch's.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.smooth_l1_loss(&v.affine(1.0, 2.0)?, 1.0)?.to_scalar::<f32>()?, 1.5);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::sub`].
    pub fn smooth_l1_loss(&self, target: &Self, beta: f64) -> Result<Self, Error> {
        self.huber_loss(target, beta)? / beta
    }

    /// The mean of `-target * ln(x) - (1 - target) * ln(1 - x)`, of probabilities; logarithms are
    /// at least −100, as PyTorch's.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert!((v.full_like(0.5)?.binary_cross_entropy(&v.ones_like()?)?.to_scalar::<f32>()? - 2_f32.ln()).abs() < 1e-6);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::sub`].
    pub fn binary_cross_entropy(&self, target: &Self) -> Result<Self, Error> {
        let log = |p: &Self| p.log()?.maximum(-100);
        let hit = target.mul(&log(self)?)?;
        (hit + (1.0 - target)?.mul(&log(&(1.0 - self)?)?)?)?.mean_all()?.neg()
    }

    /// The mean of `target * (ln(target) - x)`, `x` being logarithms of probabilities: PyTorch's
    /// `kl_div` with its default reduction.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.zeros_like()?.kl_div(&v.ones_like()?)?.to_scalar::<f32>()?, 0.0);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::sub`].
    pub fn kl_div(&self, target: &Self) -> Result<Self, Error> {
        (target.xlogy(target)? - target.mul(self)?)?.mean_all()
    }
}
