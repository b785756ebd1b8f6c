//! Products by the names of PyTorch and candle, each for operands of so many dimensions.

use warpfold_kernels::{Error, ErrorKind};

use crate::{Matmul, Tensor};

/// Products; [`Tensor::matmul`] takes operands of any number of dimensions.
impl Tensor {
    /// The product of two matrices.
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] for other than two dimensions, and those of [`Tensor::matmul`].
    pub fn mm(&self, right: &Self) -> Result<Self, Error> {
        self.of_ranks("mm", 2, right, 2)?.matmul(right)
    }

    /// The products of two lists of matrices, one by one.
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] for other than three dimensions, and those of [`Tensor::matmul`].
    pub fn bmm(&self, right: &Self) -> Result<Self, Error> {
        self.of_ranks("bmm", 3, right, 3)?.matmul(right)
    }

    /// A matrix times a vector.
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] for other numbers of dimensions, and those of [`Tensor::matmul`].
    pub fn mv(&self, vector: &Self) -> Result<Self, Error> {
        self.of_ranks("mv", 2, vector, 1)?.matmul(vector)
    }

    /// The sum of products of two vectors.
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] for other than one dimension, and those of [`Tensor::matmul`].
    pub fn dot(&self, other: &Self) -> Result<Self, Error> {
        self.of_ranks("dot", 1, other, 1)?.matmul(other)
    }

    /// Each element of a vector times each of another one.
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] for other than one dimension, and those of [`Tensor::mul`].
    pub fn outer(&self, other: &Self) -> Result<Self, Error> {
        self.of_ranks("outer", 1, other, 1)?.unsqueeze(1)? * other
    }

    /// Alias of [`Tensor::matmul`], which broadcasts.
    ///
    /// # Errors
    /// Those of [`Tensor::matmul`].
    pub fn broadcast_matmul(&self, right: &Self) -> Result<Self, Error> {
        self.matmul(right)
    }

    /// `self + left @ right`.
    ///
    /// # Errors
    /// Those of [`Tensor::mm`] and [`Tensor::add`].
    pub fn addmm(&self, left: &Self, right: &Self) -> Result<Self, Error> {
        self + left.mm(right)?
    }

    /// `self @ weights.t() + bias`, in one launch: a layer whose weights have a row per output.
    ///
    /// # Errors
    /// Those of [`Matmul::run`].
    pub fn linear(&self, weights: &Self, bias: Option<&Self>) -> Result<Self, Error> {
        let product = bias.map_or_else(Matmul::new, |bias| Matmul::new().bias(bias));
        product.run(self, &weights.t()?)
    }

    /// This tensor, if both operands have so many dimensions.
    fn of_ranks(&self, operator: &'static str, left: usize, other: &Self, right: usize) -> Result<&Self, Error> {
        for (side, tensor, expected) in [("left", self, left), ("right", other, right)] {
            if tensor.rank() != expected {
                let reason =
                    format!("the {side} operand {:?} has {} axes, not {expected}", tensor.shape(), tensor.rank());
                return Err(ErrorKind::Operand { operator, reason }.into());
            }
        }
        Ok(self)
    }
}
