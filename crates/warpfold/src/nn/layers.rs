//! Layers: a linear map, an embedding, norms.

use super::{Module, VarBuilder, ops};
use crate::{Error, ErrorKind, Tensor};

/// `x * weightᵀ + bias`, of weights `[outputs, inputs]`.
#[derive(Debug, Clone)]
pub struct Linear {
    weight: Tensor,
    bias: Option<Tensor>,
}

impl Linear {
    /// The layer of these weights.
    #[must_use]
    pub const fn new(weight: Tensor, bias: Option<Tensor>) -> Self {
        Self { weight, bias }
    }

    /// The weights.
    #[must_use]
    pub const fn weight(&self) -> &Tensor {
        &self.weight
    }

    /// The bias.
    #[must_use]
    pub const fn bias(&self) -> Option<&Tensor> {
        self.bias.as_ref()
    }
}

impl Module for Linear {
    fn forward(&self, x: &Tensor) -> Result<Tensor, Error> {
        x.linear(&self.weight, self.bias.as_ref())
    }
}

/// A linear layer of the tensors `weight` and `bias`.
///
/// # Errors
/// Those of [`VarBuilder::get`].
pub fn linear(inputs: usize, outputs: usize, weights: VarBuilder) -> Result<Linear, Error> {
    let bias = weights.get(outputs, "bias")?;
    Ok(Linear::new(weights.get((outputs, inputs), "weight")?, Some(bias)))
}

/// A linear layer of the tensor `weight`.
///
/// # Errors
/// Those of [`VarBuilder::get`].
pub fn linear_no_bias(inputs: usize, outputs: usize, weights: VarBuilder) -> Result<Linear, Error> {
    Ok(Linear::new(weights.get((outputs, inputs), "weight")?, None))
}

/// The rows of a table that ids name.
#[derive(Debug, Clone)]
pub struct Embedding {
    table: Tensor,
}

impl Embedding {
    /// The layer of a table `[words, size]`.
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] unless the table has rows of this size.
    pub fn new(table: Tensor, size: usize) -> Result<Self, Error> {
        if table.rank() == 2 && table.dim(1)? == size {
            return Ok(Self { table });
        }
        let reason = format!("the table is {:?}, not rows of {size}", table.shape());
        Err(ErrorKind::Operand { operator: "embedding", reason }.into())
    }

    /// The table.
    #[must_use]
    pub const fn embeddings(&self) -> &Tensor {
        &self.table
    }
}

impl Module for Embedding {
    fn forward(&self, ids: &Tensor) -> Result<Tensor, Error> {
        self.table.embedding(ids)
    }
}

/// An embedding of the tensor `weight`.
///
/// # Errors
/// Those of [`VarBuilder::get`].
pub fn embedding(words: usize, size: usize, weights: VarBuilder) -> Result<Embedding, Error> {
    Embedding::new(weights.get((words, size), "weight")?, size)
}

/// Layer norm along the last axis.
#[derive(Debug, Clone)]
pub struct LayerNorm {
    weight: Tensor,
    bias: Tensor,
    eps: f64,
}

impl LayerNorm {
    /// The layer of these weights.
    #[must_use]
    pub const fn new(weight: Tensor, bias: Tensor, eps: f64) -> Self {
        Self { weight, bias, eps }
    }
}

impl Module for LayerNorm {
    fn forward(&self, x: &Tensor) -> Result<Tensor, Error> {
        ops::layer_norm(x, &self.weight, &self.bias, self.eps)
    }
}

/// A layer norm of the tensors `weight` and `bias`.
///
/// # Errors
/// Those of [`VarBuilder::get`].
pub fn layer_norm(size: usize, eps: f64, weights: VarBuilder) -> Result<LayerNorm, Error> {
    Ok(LayerNorm::new(weights.get(size, "weight")?, weights.get(size, "bias")?, eps))
}

/// RMS norm along the last axis.
#[derive(Debug, Clone)]
pub struct RmsNorm {
    weight: Tensor,
    eps: f64,
}

impl RmsNorm {
    /// The layer of these weights.
    #[must_use]
    pub const fn new(weight: Tensor, eps: f64) -> Self {
        Self { weight, eps }
    }
}

impl Module for RmsNorm {
    fn forward(&self, x: &Tensor) -> Result<Tensor, Error> {
        x.rms_norm(&self.weight, self.eps)
    }
}

/// An RMS norm of the tensor `weight`.
///
/// # Errors
/// Those of [`VarBuilder::get`].
pub fn rms_norm(size: usize, eps: f64, weights: VarBuilder) -> Result<RmsNorm, Error> {
    Ok(RmsNorm::new(weights.get(size, "weight")?, eps))
}
