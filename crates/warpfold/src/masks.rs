//! Elements that masks and lists of positions choose, and what is put there.

use warpfold_kernels::operations::Number;
use warpfold_kernels::{Dtype, Error, ErrorKind};

use crate::Tensor;

/// Choices whose number of elements the device alone knows: they wait for it.
impl Tensor {
    /// The positions of the elements that are not zero, one row each, as `i64`.
    ///
    /// ```
    /// use warpfold::{Device, Profile, Tensor};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 0.0], [0.0, 4.0]], &device)?;
    /// assert_eq!(x.nonzero()?.to_vec2::<i64>()?, [[0, 0], [1, 1]]);
    /// assert_eq!(x.masked_select(&x.gt(1.0)?)?.to_vec::<f32>()?, [4.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::ne`].
    pub fn nonzero(&self) -> Result<Self, Error> {
        let rank = self.rank();
        let mut positions = Vec::new();
        for flat in self.true_positions()? {
            let mut rest = flat;
            let mut row = vec![0; rank];
            for axis in (0..rank).rev() {
                let size = self.shape()[axis] as i64;
                row[axis] = rest % size;
                rest /= size;
            }
            positions.push(row);
        }
        let count = positions.len();
        Self::from_vec(positions.concat(), (count, rank), self.queue())
    }

    /// Alias of [`Tensor::nonzero`].
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[0_f32, 3.0, 0.0, 5.0], &device)?;
    /// assert_eq!(x.argwhere()?.to_vec::<i64>()?, [1, 3]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::ne`].
    pub fn argwhere(&self) -> Result<Self, Error> {
        self.nonzero()
    }

    /// The elements where the mask, broadcast to this tensor, is true (or not zero), in C order.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.masked_select(&v.gt(1.5)?)?.to_vec::<f32>()?, [3.0, 2.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::ShapeMismatch`].
    pub fn masked_select(&self, mask: &Self) -> Result<Self, Error> {
        let positions = mask.broadcast(self.shape())?.true_positions()?;
        self.flatten_all()?.index_select(&Self::from_vec(positions.clone(), positions.len(), self.queue())?, 0)
    }

    /// Returns the positions of non-zero elements in C order.
    fn true_positions(&self) -> Result<Vec<i64>, Error> {
        let truths = self.ne(0)?.to_bytes()?;
        Ok((0_i64..).zip(truths).filter(|(_, truth)| *truth != 0).map(|(position, _)| position).collect())
    }

    /// Counts the occurrences of each integer from 0 to the largest, as `i32`.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// assert_eq!(Tensor::new(&[1_i64, 1, 3], &device)?.bincount()?.to_vec::<i32>()?, [0, 2, 0, 1]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] for negative numbers, [`ErrorKind::Unsupported`] unless the elements
    /// are integers.
    pub fn bincount(&self) -> Result<Self, Error> {
        if self.is_empty() {
            return self.histogram(0);
        }
        let (low, high) = self.aminmax(..)?;
        let [low, high] = [low, high].map(|end| end.to_dtype(Dtype::I64).and_then(|end| end.to_scalar::<i64>()));
        let (low, high) = (low?, high?);
        if low < 0 {
            let reason = format!("integers of 0 or more are counted, not {low}");
            return Err(ErrorKind::Operand { operator: "bincount", reason }.into());
        }
        self.histogram(high as usize + 1)
    }
}

/// Elements by their positions.
impl Tensor {
    /// The elements at these positions of the tensor in C order, in the shape of the positions.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// let positions = Tensor::new(&[3_i64, 0], &device)?;
    /// assert_eq!(x.take(&positions)?.to_vec::<f32>()?, [4.0, 1.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::index_select`].
    pub fn take(&self, positions: &Self) -> Result<Self, Error> {
        self.flatten_all()?.index_select(&positions.flatten_all()?, 0)?.reshape(positions.shape())
    }

    /// Alias of [`Tensor::gather`], as PyTorch and NumPy call it.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// let positions = Tensor::new(&[[1_i64], [0]], &device)?;
    /// assert_eq!(x.take_along_dim(&positions, 1)?.to_vec::<f32>()?, [2.0, 3.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::gather`].
    pub fn take_along_dim(&self, positions: &Self, axis: isize) -> Result<Self, Error> {
        self.gather(positions, axis)
    }

    /// A copy with a number at these positions of an axis.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[1_f32, 2.0, 3.0], &device)?;
    /// let positions = Tensor::new(&[0_i64, 2], &device)?;
    /// assert_eq!(x.index_fill(&positions, 9.0, 0)?.to_vec::<f32>()?, [9.0, 2.0, 9.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::index_copy`].
    pub fn index_fill(&self, positions: &Self, number: impl Into<Number>, axis: isize) -> Result<Self, Error> {
        let mut shape = self.shape().to_vec();
        shape[self.axis(axis)?] = positions.len();
        let filled = Self::filled(self.queue(), self.dtype(), number, shape)?;
        self.index_copy(positions, &filled, axis)
    }

    /// A copy with another tensor at one position of an axis.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// let row = Tensor::new(&[7_f32, 8.0], &device)?;
    /// assert_eq!(x.select_scatter(&row, 0, 1)?.to_vec::<f32>()?, [1.0, 2.0, 7.0, 8.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::slice_scatter`].
    pub fn select_scatter(&self, source: &Self, axis: isize, position: usize) -> Result<Self, Error> {
        let axis = self.axis(axis)? as isize;
        self.slice_scatter(&source.unsqueeze(axis)?, axis, position)
    }
}
