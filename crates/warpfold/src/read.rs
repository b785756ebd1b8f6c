//! Reads tensors: sizes as numbers, elements as Rust's numbers and nested `Vec`s, copies on other
//! devices.

use warpfold_device::Device;
use warpfold_kernels::{Error, ErrorKind};

use crate::{Queue, Tensor, TensorElement};

/// Sizes.
impl Tensor {
    /// The sizes, outermost first, as [`Tensor::shape`].
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.dims(), [2, 2]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    #[must_use]
    pub fn dims(&self) -> &[usize] {
        self.shape()
    }

    /// Alias of [`Tensor::dim`], as PyTorch calls it.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.size(-1)?, 2);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::dim`].
    pub fn size(&self, axis: isize) -> Result<usize, Error> {
        self.dim(axis)
    }

    /// From one position of each axis to the next, in elements.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.t()?.stride(), [1, 2]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    #[must_use]
    pub fn stride(&self) -> &[isize] {
        self.layout().strides()
    }

    /// The bytes of all elements.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.nbytes(), 16);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    #[must_use]
    pub fn nbytes(&self) -> usize {
        self.len() * self.dtype().bytes() as usize
    }

    /// The size of an axis; negative ones count from the end.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.dim(0)?, 2);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::AxisOutOfRange`].
    pub fn dim(&self, axis: isize) -> Result<usize, Error> {
        Ok(self.shape()[self.axis(axis)?])
    }

    /// Elements, as [`Tensor::len`].
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.elem_count(), 4);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    #[must_use]
    pub fn elem_count(&self) -> usize {
        self.len()
    }

    /// Elements, as [`Tensor::len`].
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.nelement(), 4);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    #[must_use]
    pub fn nelement(&self) -> usize {
        self.len()
    }

    /// Dimensions, as [`Tensor::rank`].
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.ndim(), 2);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    #[must_use]
    pub fn ndim(&self) -> usize {
        self.rank()
    }

    /// Elements, as [`Tensor::len`].
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.numel(), 4);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    #[must_use]
    pub fn numel(&self) -> usize {
        self.len()
    }

    /// Returns whether the elements are contiguous in C order.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert!(x.is_contiguous() && !x.t()?.is_contiguous());
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    #[must_use]
    pub fn is_contiguous(&self) -> bool {
        self.layout().is_contiguous()
    }

    /// The one size of a tensor of one axis.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.dims1()?, 3);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] with the shape.
    pub fn dims1(&self) -> Result<usize, Error> {
        self.sizes("dims1").map(|[a]| a)
    }

    /// The sizes of a tensor of two axes.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.dims2()?, (2, 2));
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] with the shape.
    pub fn dims2(&self) -> Result<(usize, usize), Error> {
        self.sizes("dims2").map(|[a, b]| (a, b))
    }

    /// The sizes of a tensor of three axes.
    ///
    /// ```
    /// # use warpfold::{Device, Dtype, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::zeros((2, 3, 4), Dtype::F32, &device)?;
    /// assert_eq!(x.dims3()?, (2, 3, 4));
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] with the shape.
    pub fn dims3(&self) -> Result<(usize, usize, usize), Error> {
        self.sizes("dims3").map(|[a, b, c]| (a, b, c))
    }

    /// The sizes of a tensor of four axes.
    ///
    /// ```
    /// # use warpfold::{Device, Dtype, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::zeros((1, 2, 3, 4), Dtype::F32, &device)?;
    /// assert_eq!(x.dims4()?, (1, 2, 3, 4));
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] with the shape.
    pub fn dims4(&self) -> Result<(usize, usize, usize, usize), Error> {
        self.sizes("dims4").map(|[a, b, c, d]| (a, b, c, d))
    }

    fn sizes<const N: usize>(&self, operator: &'static str) -> Result<[usize; N], Error> {
        self.shape().try_into().map_err(|_| {
            let reason = format!("the shape {:?} has {} axes, {N} are asked for", self.shape(), self.rank());
            ErrorKind::Operand { operator, reason }.into()
        })
    }
}

/// Elements.
impl Tensor {
    /// The element of a tensor of one, whatever its shape.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.i((1, 0))?.to_scalar::<f32>()?, 3.0);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] for another number of elements, and unless `T` is their type.
    pub fn to_scalar<T: TensorElement>(&self) -> Result<T, Error> {
        match self.to_vec::<T>()?[..] {
            [element] => Ok(element),
            _ => {
                let reason = format!("the shape {:?} has {} elements, one is asked for", self.shape(), self.len());
                Err(ErrorKind::Operand { operator: "to_scalar", reason }.into())
            }
        }
    }

    /// Alias of [`Tensor::to_scalar`].
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.sum(..)?.to_vec0::<f32>()?, 10.0);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::to_scalar`].
    pub fn to_vec0<T: TensorElement>(&self) -> Result<T, Error> {
        self.to_scalar()
    }

    /// Alias of [`Tensor::to_scalar`].
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.max_all()?.item::<f32>()?, 3.0);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::to_scalar`].
    pub fn item<T: TensorElement>(&self) -> Result<T, Error> {
        self.to_scalar()
    }

    /// The elements of a tensor of one axis.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.to_vec1::<f32>()?, [3.0, 1.0, 2.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::dims1`] and [`Tensor::to_vec`].
    pub fn to_vec1<T: TensorElement>(&self) -> Result<Vec<T>, Error> {
        let [_] = self.sizes("to_vec1")?;
        self.to_vec()
    }

    /// The rows of a tensor of two axes.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.to_vec2::<f32>()?, [[1.0, 2.0], [3.0, 4.0]]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::dims2`] and [`Tensor::to_vec`].
    pub fn to_vec2<T: TensorElement>(&self) -> Result<Vec<Vec<T>>, Error> {
        let [rows, columns] = self.sizes("to_vec2")?;
        Ok(rows_of(&self.to_vec()?, rows, columns))
    }

    /// The matrices of a tensor of three axes.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.unsqueeze(0)?.to_vec3::<f32>()?, [[[1.0, 2.0], [3.0, 4.0]]]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::dims3`] and [`Tensor::to_vec`].
    pub fn to_vec3<T: TensorElement>(&self) -> Result<Vec<Vec<Vec<T>>>, Error> {
        let [matrices, rows, columns] = self.sizes("to_vec3")?;
        let elements = self.to_vec()?;
        let size = rows * columns;
        Ok((0..matrices).map(|matrix| rows_of(&elements[matrix * size..][..size], rows, columns)).collect())
    }

    /// A copy of the tensor on another device, through the host; the tensor itself if it is there.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.to_device(&device)?.to_vec::<f32>()?, [3.0, 1.0, 2.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// What the devices say.
    pub fn to_device(&self, device: &Device) -> Result<Self, Error> {
        if self.device() == device {
            return Ok(self.clone());
        }
        Self::from_bytes(&Queue::of(device), self.dtype(), &self.to_bytes()?, self.shape())
    }
}

fn rows_of<T: Copy>(elements: &[T], rows: usize, columns: usize) -> Vec<Vec<T>> {
    (0..rows).map(|row| elements[row * columns..][..columns].to_vec()).collect()
}
