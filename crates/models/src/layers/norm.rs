//! RMS norm.

use warpfold::{Axes, NormInputs, Tensor};

use crate::Error;

/// `x / sqrt(mean of x² + eps) · scale` over the last axis.
#[derive(Debug)]
pub(crate) struct Norm {
    pub(crate) scale: Tensor,
    pub(super) eps: f64,
}

impl Norm {
    pub(crate) fn new(scale: Tensor, eps: f64) -> Self {
        Self { scale, eps }
    }

    pub(crate) fn forward(&self, x: &Tensor) -> Result<Tensor, Error> {
        let inputs = NormInputs { scale: Some(&self.scale), eps: Some(self.eps), ..NormInputs::default() };
        Ok(x.rms_norm(Axes::Of(&[-1]), inputs)?.result)
    }
}
