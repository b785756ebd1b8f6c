//! Functions by the names and with the arguments of `candle_nn::ops`.

use crate::{Axes, Error, NormInputs, Tensor};

/// Softmax along an axis.
///
/// # Errors
/// Those of [`Tensor::softmax`].
pub fn softmax<'b>(x: &Tensor, axes: impl Into<Axes<'b>>) -> Result<Tensor, Error> {
    x.softmax(axes)
}

/// Softmax along the last axis.
///
/// # Errors
/// Those of [`Tensor::softmax`].
pub fn softmax_last_dim(x: &Tensor) -> Result<Tensor, Error> {
    x.softmax(-1)
}

/// The logarithm of softmax along an axis.
///
/// # Errors
/// Those of [`Tensor::softmax`].
pub fn log_softmax<'b>(x: &Tensor, axes: impl Into<Axes<'b>>) -> Result<Tensor, Error> {
    x.log_softmax(axes)
}

/// `1 / (1 + e^-x)`.
///
/// # Errors
/// Those of [`Tensor::sigmoid`].
pub fn sigmoid(x: &Tensor) -> Result<Tensor, Error> {
    x.sigmoid()
}

/// `x * sigmoid(x)`.
///
/// # Errors
/// Those of [`Tensor::silu`].
pub fn silu(x: &Tensor) -> Result<Tensor, Error> {
    x.silu()
}

/// `silu` of the first half of the last axis times the second half.
///
/// # Errors
/// [`Operand`](crate::ErrorKind::Operand) for an odd size.
pub fn swiglu(x: &Tensor) -> Result<Tensor, Error> {
    let half = x.half_of("swiglu", -1)?;
    x.narrow(-1, 0, half)?.silu()?.mul(&x.narrow(-1, half, half)?)
}

/// `x`, or `slope * x` below 0.
///
/// # Errors
/// Those of [`Tensor::leaky_relu`].
pub fn leaky_relu(x: &Tensor, slope: f64) -> Result<Tensor, Error> {
    x.leaky_relu(slope)
}

/// Dropout, as it is trained with.
///
/// # Errors
/// Those of [`Tensor::dropout`].
pub fn dropout(x: &Tensor, p: f32) -> Result<Tensor, Error> {
    x.dropout(f64::from(p))
}

/// RMS norm along the last axis.
///
/// # Errors
/// Those of [`Tensor::rms_norm`].
pub fn rms_norm(x: &Tensor, weight: &Tensor, eps: impl Into<f64>) -> Result<Tensor, Error> {
    x.rms_norm(weight, eps.into())
}

/// Layer norm along the last axis.
///
/// # Errors
/// Those of [`Tensor::layer_norm`].
pub fn layer_norm(x: &Tensor, weight: &Tensor, bias: &Tensor, eps: impl Into<f64>) -> Result<Tensor, Error> {
    let inputs = NormInputs { scale: Some(weight), bias: Some(bias), eps: Some(eps.into()), ..NormInputs::default() };
    Ok(x.layer_norm(-1, inputs)?.result)
}
