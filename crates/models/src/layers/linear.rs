//! `x W^T + b`, in bits that do not depend on how many rows there are.

use warpfold::{Dtype, Matmul, Tensor};

use super::Shard;
use crate::Error;

/// A product with weights that lie as `[out, in]`.
#[derive(Debug)]
pub(crate) struct Linear {
    /// `[in, out]`, a view of them.
    pub(super) weight: Tensor,
    pub(super) bias: Option<Tensor>,
    /// Who has the other parts of the sums; the weights are `[parts, inputs of a part, out]` then.
    pub(super) shard: Option<Shard>,
}

impl Linear {
    pub(crate) fn new(weight: &Tensor, bias: Option<Tensor>) -> Result<Self, Error> {
        Ok(Self { weight: weight.t()?, bias, shard: None })
    }

    fn product(&self) -> Matmul {
        let product = Matmul::new().batch_invariant();
        match &self.bias {
            Some(bias) => product.bias(bias),
            None => product,
        }
    }

    pub(crate) fn forward(&self, x: &Tensor) -> Result<Tensor, Error> {
        match &self.shard {
            Some(shard) => shard.product(x, &self.weight, self.bias.as_ref(), None),
            None => Ok(self.product().run(x, &self.weight)?),
        }
    }

    /// The product plus what goes around it.
    pub(crate) fn forward_add(&self, x: &Tensor, residual: &Tensor) -> Result<Tensor, Error> {
        match &self.shard {
            Some(shard) => shard.product(x, &self.weight, self.bias.as_ref(), Some(residual)),
            None => Ok(self.product().residual(residual).run(x, &self.weight)?),
        }
    }

    /// The product as it is summed, not rounded to the type of the rows.
    pub(crate) fn forward_f32(&self, x: &Tensor) -> Result<Tensor, Error> {
        Ok(self.product().dtype(Dtype::F32).run(x, &self.weight)?)
    }
}
