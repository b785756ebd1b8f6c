//! `x W^T + b`, in bits that do not depend on how many rows there are.

use warpfold::{Activation, Dtype, Matmul, Tensor};

use super::Shard;
use crate::Error;

/// A product with weights that lie as `[out, in]`.
#[derive(Debug)]
pub(crate) struct Linear {
    /// `[in, out]`, a view of them.
    pub(super) weight: Tensor,
    pub(super) bias: Option<Tensor>,
    /// Parts of the sums, which are added in a balanced tree: products over what devices may share
    /// have several, whether they share it or not.
    pub(super) parts: usize,
    /// Who has the other parts of the sums.
    pub(super) shard: Option<Shard>,
}

impl Linear {
    pub(crate) fn new(weight: &Tensor, bias: Option<Tensor>) -> Result<Self, Error> {
        Ok(Self { weight: weight.t()?, bias, parts: 1, shard: None })
    }

    fn sums(&self) -> Matmul {
        Matmul::new().batch_invariant().parts(self.parts as u64).weights()
    }

    fn product(&self) -> Matmul {
        match &self.bias {
            Some(bias) => self.sums().bias(bias),
            None => self.sums(),
        }
    }

    pub(crate) fn forward(&self, x: &Tensor) -> Result<Tensor, Error> {
        match &self.shard {
            Some(shard) => shard.add(&self.partial(x)?, x, self.bias.as_ref(), None),
            None => Ok(self.product().run(x, &self.weight)?),
        }
    }

    /// The device's part of the sums.
    fn partial(&self, x: &Tensor) -> Result<Tensor, Error> {
        Ok(self.sums().dtype(Dtype::F32).run(x, &self.weight)?)
    }

    /// The activation of a gate times the other half of the columns, which lie as
    /// [`Loader::gated`](super::Loader::gated) has them.
    pub(crate) fn forward_gated(&self, x: &Tensor, activation: Activation) -> Result<Tensor, Error> {
        Ok(self.product().gate(activation).run(x, &self.weight)?)
    }

    /// The product plus what goes around it.
    pub(crate) fn forward_add(&self, x: &Tensor, residual: &Tensor) -> Result<Tensor, Error> {
        match &self.shard {
            Some(shard) => shard.add(&self.partial(x)?, x, self.bias.as_ref(), Some(residual)),
            None => Ok(self.product().residual(residual).run(x, &self.weight)?),
        }
    }

    /// As [`Self::forward_f32`], over what a tensor has.
    pub(crate) fn forward_f32_into(&self, x: &Tensor, result: &mut Tensor) -> Result<(), Error> {
        Ok(self.product().dtype(Dtype::F32).run_into(x, &self.weight, result)?)
    }

    /// The product as it is summed, not rounded to the type of the rows.
    pub(crate) fn forward_f32(&self, x: &Tensor) -> Result<Tensor, Error> {
        Ok(self.product().dtype(Dtype::F32).run(x, &self.weight)?)
    }
}
