//! Functions by the names and with the arguments of `candle_nn::ops`.

use crate::{Axes, Error, NormInputs, Tensor};

/// Softmax along an axis.
///
/// ```
/// # use warpfold::{Device, Profile, Tensor};
/// # let device = Device::virtual_gpu(Profile::H200);
/// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
/// assert!((warpfold::nn::ops::softmax(&v, 0)?.sum_all()?.to_scalar::<f32>()? - 1.0).abs() < 1e-6);
/// # Ok::<(), warpfold::Error>(())
/// ```
///
/// # Errors
/// Those of [`Tensor::softmax`].
pub fn softmax<'b>(x: &Tensor, axes: impl Into<Axes<'b>>) -> Result<Tensor, Error> {
    x.softmax(axes)
}

/// Softmax along the last axis.
///
/// ```
/// # use warpfold::{Device, Profile, Tensor};
/// # let device = Device::virtual_gpu(Profile::H200);
/// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
/// assert!((warpfold::nn::ops::softmax_last_dim(&v)?.sum_all()?.to_scalar::<f32>()? - 1.0).abs() < 1e-6);
/// # Ok::<(), warpfold::Error>(())
/// ```
///
/// # Errors
/// Those of [`Tensor::softmax`].
pub fn softmax_last_dim(x: &Tensor) -> Result<Tensor, Error> {
    x.softmax(-1)
}

/// The logarithm of softmax along an axis.
///
/// ```
/// # use warpfold::{Device, Profile, Tensor};
/// # let device = Device::virtual_gpu(Profile::H200);
/// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
/// assert!((warpfold::nn::ops::log_softmax(&v.zeros_like()?, 0)?.i(0)?.exp()?.to_scalar::<f32>()? - 1.0 / 3.0).abs() < 1e-6);
/// # Ok::<(), warpfold::Error>(())
/// ```
///
/// # Errors
/// Those of [`Tensor::softmax`].
pub fn log_softmax<'b>(x: &Tensor, axes: impl Into<Axes<'b>>) -> Result<Tensor, Error> {
    x.log_softmax(axes)
}

/// `1 / (1 + e^-x)`.
///
/// ```
/// # use warpfold::{Device, Profile, Tensor};
/// # let device = Device::virtual_gpu(Profile::H200);
/// let z = Tensor::new(&[-1_f32, 0.0, 2.0], &device)?;
/// assert_eq!(warpfold::nn::ops::sigmoid(&z)?.i(1)?.to_scalar::<f32>()?, 0.5);
/// # Ok::<(), warpfold::Error>(())
/// ```
///
/// # Errors
/// Those of [`Tensor::sigmoid`].
pub fn sigmoid(x: &Tensor) -> Result<Tensor, Error> {
    x.sigmoid()
}

/// `x * sigmoid(x)`.
///
/// ```
/// # use warpfold::{Device, Profile, Tensor};
/// # let device = Device::virtual_gpu(Profile::H200);
/// let z = Tensor::new(&[-1_f32, 0.0, 2.0], &device)?;
/// assert_eq!(warpfold::nn::ops::silu(&z)?.i(1)?.to_scalar::<f32>()?, 0.0);
/// # Ok::<(), warpfold::Error>(())
/// ```
///
/// # Errors
/// Those of [`Tensor::silu`].
pub fn silu(x: &Tensor) -> Result<Tensor, Error> {
    x.silu()
}

/// `silu` of the first half of the last axis times the second half.
///
/// ```
/// # use warpfold::{Device, Profile, Tensor};
/// # let device = Device::virtual_gpu(Profile::H200);
/// assert_eq!(warpfold::nn::ops::swiglu(&Tensor::new(&[0_f32, 3.0], &device)?)?.to_vec::<f32>()?, [0.0]);
/// # Ok::<(), warpfold::Error>(())
/// ```
///
/// # Errors
/// [`Operand`](crate::ErrorKind::Operand) for an odd size.
pub fn swiglu(x: &Tensor) -> Result<Tensor, Error> {
    let half = x.half_of("swiglu", -1)?;
    x.narrow(-1, 0, half)?.silu()?.mul(&x.narrow(-1, half, half)?)
}

/// `x`, or `slope * x` below 0.
///
/// ```
/// # use warpfold::{Device, Profile, Tensor};
/// # let device = Device::virtual_gpu(Profile::H200);
/// let z = Tensor::new(&[-1_f32, 0.0, 2.0], &device)?;
/// assert_eq!(warpfold::nn::ops::leaky_relu(&z, 0.5)?.to_vec::<f32>()?, [-0.5, 0.0, 2.0]);
/// # Ok::<(), warpfold::Error>(())
/// ```
///
/// # Errors
/// Those of [`Tensor::leaky_relu`].
pub fn leaky_relu(x: &Tensor, slope: f64) -> Result<Tensor, Error> {
    x.leaky_relu(slope)
}

/// Dropout, as it is trained with.
///
/// ```
/// # use warpfold::{Device, Profile, Tensor};
/// # let device = Device::virtual_gpu(Profile::H200);
/// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
/// assert_eq!(warpfold::nn::ops::dropout(&v, 0.0)?.to_vec::<f32>()?, [3.0, 1.0, 2.0]);
/// # Ok::<(), warpfold::Error>(())
/// ```
///
/// # Errors
/// Those of [`Tensor::dropout`].
pub fn dropout(x: &Tensor, p: f32) -> Result<Tensor, Error> {
    x.dropout(f64::from(p))
}

/// RMS norm along the last axis.
///
/// ```
/// # use warpfold::{Device, Profile, Tensor};
/// # let device = Device::virtual_gpu(Profile::H200);
/// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
/// let norm = warpfold::nn::ops::rms_norm(&v.ones_like()?, &v, 0.0)?;
/// assert_eq!(norm.to_vec::<f32>()?, [3.0, 1.0, 2.0]);
/// # Ok::<(), warpfold::Error>(())
/// ```
///
/// # Errors
/// Those of [`Tensor::rms_norm`].
pub fn rms_norm(x: &Tensor, weight: &Tensor, eps: impl Into<f64>) -> Result<Tensor, Error> {
    x.rms_norm(weight, eps.into())
}

/// Layer norm along the last axis.
///
/// ```
/// # use warpfold::{Device, Profile, Tensor};
/// # let device = Device::virtual_gpu(Profile::H200);
/// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
/// let norm = warpfold::nn::ops::layer_norm(&v.ones_like()?, &v, &v, 1e-5)?;
/// assert_eq!(norm.to_vec::<f32>()?, [3.0, 1.0, 2.0]);
/// # Ok::<(), warpfold::Error>(())
/// ```
///
/// # Errors
/// Those of [`Tensor::layer_norm`].
pub fn layer_norm(x: &Tensor, weight: &Tensor, bias: &Tensor, eps: impl Into<f64>) -> Result<Tensor, Error> {
    let inputs = NormInputs { scale: Some(weight), bias: Some(bias), eps: Some(eps.into()), ..NormInputs::default() };
    Ok(x.layer_norm(-1, inputs)?.result)
}
