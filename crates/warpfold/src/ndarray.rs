//! Tensors from and to arrays of the crate `ndarray`.

use ndarray::{ArrayD, ArrayRef, Dimension, IxDyn};
use warpfold_kernels::Error;

use crate::{Queue, Tensor, TensorElement};

impl Tensor {
    /// A copy of an array, or of a view of one, on a device.
    ///
    /// ```
    /// use ndarray::array;
    /// use warpfold::{Device, Profile, Tensor};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let a = array![[1.0_f32, 2.0, 3.0], [4.0, 5.0, 6.0]];
    /// let x = Tensor::from_ndarray(&a.t(), &device)?;
    /// assert_eq!(x.dims(), [3, 2]);
    /// assert_eq!((x * 2.0)?.to_ndarray::<f32>()?, (a.t().to_owned() * 2.0).into_dyn());
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`TooManyDimensions`](crate::ErrorKind::TooManyDimensions), and what the device says.
    pub fn from_ndarray<T: TensorElement, D: Dimension>(
        array: &ArrayRef<T, D>,
        at: impl Into<Queue>,
    ) -> Result<Self, Error> {
        let elements: Vec<T> = array.iter().copied().collect();
        Self::from_vec(elements, array.shape(), at)
    }

    /// The elements as an array.
    ///
    /// # Errors
    /// Those of [`Tensor::to_vec`].
    pub fn to_ndarray<T: TensorElement>(&self) -> Result<ArrayD<T>, Error> {
        let array = ArrayD::from_shape_vec(IxDyn(self.shape()), self.to_vec()?);
        Ok(array.expect("a tensor has as many elements as its shape"))
    }
}
