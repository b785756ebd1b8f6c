//! `x W^T + b`, in bits that do not depend on how many rows there are.

use warpfold::{Activation, Dtype, Matmul, PackedWeights, Tensor};

use super::Shard;
use super::adapted::Adapted;
use crate::Error;

/// Weights that lie as `[out, in]`.
#[derive(Debug, Clone)]
pub(crate) enum Weight {
    /// Numbers of the type that is computed in.
    Plain(Tensor),
    /// Codes of few bits, as the files have them.
    Packed(PackedWeights),
}

/// A product with weights.
#[derive(Debug)]
pub(crate) struct Linear {
    /// Plain ones are a view `[in, out]`.
    pub(super) weight: Weight,
    pub(super) bias: Option<Tensor>,
    /// Parts of the sums, which are added in a balanced tree: products over what devices may share
    /// have several, whether they share it or not.
    pub(super) parts: usize,
    /// The shard, if other devices hold further parts of the sums.
    pub(super) shard: Option<Shard>,
    /// Adapter terms, where the model may have adapters.
    pub(super) adapted: Option<Box<Adapted>>,
}

impl Linear {
    pub(crate) fn new(weight: Weight, bias: Option<Tensor>) -> Result<Self, Error> {
        let weight = match weight {
            Weight::Plain(weight) => Weight::Plain(weight.t()?),
            packed => packed,
        };
        Ok(Self { weight, bias, parts: 1, shard: None, adapted: None })
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

    fn run(&self, product: &Matmul, x: &Tensor) -> Result<Tensor, Error> {
        Ok(match &self.weight {
            Weight::Plain(weight) => product.run(x, weight)?,
            Weight::Packed(weights) => product.run_packed(x, weights)?,
        })
    }

    /// The device's part of the sums.
    fn partial(&self, x: &Tensor) -> Result<Tensor, Error> {
        self.run(&self.sums().dtype(Dtype::F32), x)
    }

    /// The product of rows, whose adapters are named.
    pub(crate) fn forward(&self, x: &Tensor, adapters: &Tensor) -> Result<Tensor, Error> {
        match (&self.shard, &self.adapted) {
            (Some(shard), _) => shard.add(&self.partial(x)?, x, self.bias.as_ref(), None),
            // Sums and what is added to them are rounded together, once.
            (None, Some(adapted)) => self.run(&self.product().residual(&adapted.run(x, adapters)?), x),
            (None, None) => self.run(&self.product(), x),
        }
    }

    /// The adapters, where the model may have some.
    pub(crate) fn adapted_mut(&mut self) -> Option<&mut Adapted> {
        self.adapted.as_deref_mut()
    }

    /// Returns whether the model may have adapters.
    pub(crate) const fn is_adapted(&self) -> bool {
        self.adapted.is_some()
    }

    /// The activation of a gate times the other half of the columns, which lie as
    /// [`Loader::gated`](super::Loader::gated) has them.
    pub(crate) fn forward_gated(&self, x: &Tensor, activation: Activation) -> Result<Tensor, Error> {
        self.run(&self.product().gate(activation), x)
    }

    /// The product plus what goes around it.
    pub(crate) fn forward_add(&self, x: &Tensor, residual: &Tensor, adapters: &Tensor) -> Result<Tensor, Error> {
        match (&self.shard, &self.adapted) {
            (Some(shard), _) => shard.add(&self.partial(x)?, x, self.bias.as_ref(), Some(residual)),
            (None, Some(adapted)) => {
                let residual = residual.cast(Dtype::F32)?.add(&adapted.run(x, adapters)?)?;
                self.run(&self.product().residual(&residual), x)
            }
            (None, None) => self.run(&self.product().residual(residual), x),
        }
    }

    /// Variant of [`Self::forward_f32`] that writes to an existing tensor.
    pub(crate) fn forward_f32_into(&self, x: &Tensor, result: &mut Tensor) -> Result<(), Error> {
        let product = self.product().dtype(Dtype::F32);
        match &self.weight {
            Weight::Plain(weight) => product.run_into(x, weight, result)?,
            Weight::Packed(weights) => product.run_packed_into(x, weights, result)?,
        }
        Ok(())
    }

    /// The product as it is summed, not rounded to the type of the rows.
    pub(crate) fn forward_f32(&self, x: &Tensor) -> Result<Tensor, Error> {
        self.run(&self.product().dtype(Dtype::F32), x)
    }
}
