//! Losses by the names of `candle_nn::loss`; each is the mean over the rows or elements.

use crate::{Error, Tensor};

/// The cross-entropy of logits and class numbers.
///
/// ```
/// # use warpfold::{Device, Profile, Tensor, nn};
/// # let device = Device::virtual_gpu(Profile::H200);
/// let logits = Tensor::new(&[[0_f32, 0.0], [0.0, 0.0]], &device)?;
/// let loss = nn::loss::cross_entropy(&logits, &Tensor::new(&[0_u32, 1], &device)?)?;
/// assert_eq!(loss.to_scalar::<f32>()?, 2_f32.ln());
/// # Ok::<(), warpfold::Error>(())
/// ```
///
/// # Errors
/// Those of [`Tensor::cross_entropy`].
pub fn cross_entropy(logits: &Tensor, target: &Tensor) -> Result<Tensor, Error> {
    logits.cross_entropy(target)
}

/// The negative log-likelihood of log-probabilities and class numbers.
///
/// ```
/// # use warpfold::{Device, Profile, Tensor};
/// # let device = Device::virtual_gpu(Profile::H200);
/// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
/// assert!((warpfold::nn::loss::nll(&x.log_softmax(1)?, &Tensor::new(&[1_u32, 1], &device)?)?.to_scalar::<f32>()? - 0.313_261_7).abs() < 1e-6);
/// # Ok::<(), warpfold::Error>(())
/// ```
///
/// # Errors
/// Those of [`Tensor::nll_loss`].
pub fn nll(log_probabilities: &Tensor, target: &Tensor) -> Result<Tensor, Error> {
    log_probabilities.nll_loss(target)
}

/// The mean squared error.
///
/// ```
/// # use warpfold::{Device, Profile, Tensor};
/// # let device = Device::virtual_gpu(Profile::H200);
/// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
/// assert_eq!(warpfold::nn::loss::mse(&v, &v.affine(1.0, 2.0)?)?.to_scalar::<f32>()?, 4.0);
/// # Ok::<(), warpfold::Error>(())
/// ```
///
/// # Errors
/// Those of [`Tensor::mse_loss`].
pub fn mse(input: &Tensor, target: &Tensor) -> Result<Tensor, Error> {
    input.mse_loss(target)
}

/// The binary cross-entropy of logits and targets between 0 and 1.
///
/// ```
/// # use warpfold::{Device, Profile, Tensor};
/// # let device = Device::virtual_gpu(Profile::H200);
/// let z = Tensor::new(&[-1_f32, 0.0, 2.0], &device)?;
/// assert!((warpfold::nn::loss::binary_cross_entropy_with_logit(&z.zeros_like()?, &z.ones_like()?)?.to_scalar::<f32>()? - 2_f32.ln()).abs() < 1e-6);
/// # Ok::<(), warpfold::Error>(())
/// ```
///
/// # Errors
/// Those of [`Tensor::binary_cross_entropy_with_logits`].
pub fn binary_cross_entropy_with_logit(logits: &Tensor, target: &Tensor) -> Result<Tensor, Error> {
    logits.binary_cross_entropy_with_logits(target)
}

/// The Huber loss: squared below `delta`, linear above.
///
/// ```
/// # use warpfold::{Device, Profile, Tensor};
/// # let device = Device::virtual_gpu(Profile::H200);
/// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
/// assert_eq!(warpfold::nn::loss::huber(&v, &v.affine(1.0, 2.0)?, 1.0)?.to_scalar::<f32>()?, 1.5);
/// # Ok::<(), warpfold::Error>(())
/// ```
///
/// # Errors
/// Those of [`Tensor::huber_loss`].
pub fn huber(input: &Tensor, target: &Tensor, delta: f64) -> Result<Tensor, Error> {
    input.huber_loss(target, delta)
}
