//! Products by the names of PyTorch and candle, each for operands of so many dimensions.

use warpfold_kernels::{Error, ErrorKind};

use crate::{Matmul, Tensor};

/// Products; [`Tensor::matmul`] takes operands of any number of dimensions.
impl Tensor {
    /// The product of two matrices.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.mm(&x)?.to_vec::<f32>()?, [7.0, 10.0, 15.0, 22.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] for other than two dimensions, and those of [`Tensor::matmul`].
    pub fn mm(&self, right: &Self) -> Result<Self, Error> {
        self.of_ranks("mm", 2, right, 2)?.matmul(right)
    }

    /// The products of two lists of matrices, one by one.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.unsqueeze(0)?.bmm(&x.unsqueeze(0)?)?.dims(), [1, 2, 2]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] for other than three dimensions, and those of [`Tensor::matmul`].
    pub fn bmm(&self, right: &Self) -> Result<Self, Error> {
        self.of_ranks("bmm", 3, right, 3)?.matmul(right)
    }

    /// A matrix times a vector.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.mv(&x.i(0)?)?.to_vec::<f32>()?, [5.0, 11.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] for other numbers of dimensions, and those of [`Tensor::matmul`].
    pub fn mv(&self, vector: &Self) -> Result<Self, Error> {
        self.of_ranks("mv", 2, vector, 1)?.matmul(vector)
    }

    /// The sum of products of two vectors.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.dot(&v)?.to_scalar::<f32>()?, 14.0);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] for other than one dimension, and those of [`Tensor::matmul`].
    pub fn dot(&self, other: &Self) -> Result<Self, Error> {
        self.of_ranks("dot", 1, other, 1)?.matmul(other)
    }

    /// Each element of a vector times each of another one.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.outer(&v)?.dims(), [3, 3]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
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
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.addmm(&x, &x)?.to_vec::<f32>()?, [8.0, 12.0, 18.0, 26.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::mm`] and [`Tensor::add`].
    pub fn addmm(&self, left: &Self, right: &Self) -> Result<Self, Error> {
        self + left.mm(right)?
    }

    /// `self @ weights.t() + bias`, in one launch: a layer whose weights have a row per output.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.linear(&x, None)?.to_vec::<f32>()?, [5.0, 11.0, 11.0, 25.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
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
