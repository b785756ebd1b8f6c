//! `x W^T + b`, in bits that do not depend on how many rows there are.

use warpfold::{Activation, Dtype, Matmul, PackedWeights, Tensor};

use super::Shard;
use crate::Error;

/// Weights that lie as `[out, in]`.
#[derive(Debug, Clone)]
pub(crate) enum Weight {
    /// Numbers of the type that is computed in.
    Plain(Tensor),
    /// Codes of few bits, as the files have them.
    Packed(PackedWeights),
    /// The same of parts of the inputs, of a product that is shared with other devices.
    PackedParts(Vec<PackedWeights>),
}

/// A product with weights.
#[derive(Debug)]
pub(crate) struct Linear {
    /// Plain ones are a view `[in, out]`.
    weight: Weight,
    bias: Option<Tensor>,
    /// Who has the other parts of the sums; the weights are `[parts, inputs of a part, out]` then.
    shard: Option<Shard>,
}

impl Linear {
    pub(crate) fn new(weight: Weight, bias: Option<Tensor>) -> Result<Self, Error> {
        let weight = match weight {
            Weight::Plain(weight) => Weight::Plain(weight.t()?),
            packed => packed,
        };
        Ok(Self { weight, bias, shard: None })
    }

    /// The device's parts of a product that it shares with others: plain ones are `[parts, out,
    /// inputs of a part]`.
    pub(super) fn of_parts(weight: Weight, bias: Option<Tensor>, shard: &Shard) -> Result<Self, Error> {
        let weight = match weight {
            Weight::Plain(parts) => Weight::Plain(parts.transpose(1, 2)?),
            packed => packed,
        };
        Ok(Self { weight, bias, shard: Some(shard.clone()) })
    }

    fn product(&self) -> Matmul {
        let product = Matmul::new().batch_invariant().weights();
        match &self.bias {
            Some(bias) => product.bias(bias),
            None => product,
        }
    }

    fn run(&self, product: &Matmul, x: &Tensor) -> Result<Tensor, Error> {
        Ok(match &self.weight {
            Weight::Plain(weight) => product.run(x, weight)?,
            Weight::Packed(weights) => product.run_packed(x, weights)?,
            Weight::PackedParts(parts) => product.run_packed_each(x, parts)?,
        })
    }

    /// The sums over all devices, if there are others.
    fn shared(&self, x: &Tensor, residual: Option<&Tensor>) -> Option<Result<Tensor, Error>> {
        let shard = self.shard.as_ref()?;
        let sum = |x_parts: &Tensor| {
            let sums = self.run(&Matmul::new().batch_invariant().weights().dtype(Dtype::F32), x_parts)?;
            shard.sum(x, &sums, self.bias.as_ref(), residual)
        };
        Some(match &self.weight {
            Weight::Plain(weight) => shard.in_parts(x, weight.shape()[0]).and_then(|x_parts| sum(&x_parts)),
            Weight::Packed(_) | Weight::PackedParts(_) => sum(x),
        })
    }

    pub(crate) fn forward(&self, x: &Tensor) -> Result<Tensor, Error> {
        self.shared(x, None).unwrap_or_else(|| self.run(&self.product(), x))
    }

    /// The activation of a gate times the other half of the columns, which lie as
    /// [`Loader::gated`](super::Loader::gated) has them.
    pub(crate) fn forward_gated(&self, x: &Tensor, activation: Activation) -> Result<Tensor, Error> {
        self.run(&self.product().gate(activation), x)
    }

    /// The product plus what goes around it.
    pub(crate) fn forward_add(&self, x: &Tensor, residual: &Tensor) -> Result<Tensor, Error> {
        self.shared(x, Some(residual)).unwrap_or_else(|| self.run(&self.product().residual(residual), x))
    }

    /// As [`Self::forward_f32`], over what a tensor has.
    pub(crate) fn forward_f32_into(&self, x: &Tensor, result: &mut Tensor) -> Result<(), Error> {
        let product = self.product().dtype(Dtype::F32);
        match &self.weight {
            Weight::Plain(weight) => product.run_into(x, weight, result)?,
            Weight::Packed(weights) => product.run_packed_into(x, weights, result)?,
            Weight::PackedParts(_) => unreachable!("a head is not split along its inputs"),
        }
        Ok(())
    }

    /// The product as it is summed, not rounded to the type of the rows.
    pub(crate) fn forward_f32(&self, x: &Tensor) -> Result<Tensor, Error> {
        self.run(&self.product().dtype(Dtype::F32), x)
    }
}
