//! Elements put where tensors of indices say, with the same bits on every run.

use warpfold_kernels::gather::Gather;
use warpfold_kernels::reductions::Reduction;
use warpfold_kernels::scatter::{Problem, Scatter};
use warpfold_kernels::{Error, ErrorKind};

use crate::Tensor;

/// The reduction of sources that go to the same element.
#[derive(Clone, Copy)]
struct Combination {
    operator: &'static str,
    reduction: Option<Reduction>,
    include_table: bool,
}

impl Combination {
    /// The last source wins.
    const fn last(operator: &'static str) -> Self {
        Self { operator, reduction: None, include_table: true }
    }

    /// All are added to the element.
    const fn sum(operator: &'static str) -> Self {
        Self { operator, reduction: Some(Reduction::Sum), include_table: true }
    }
}

/// Scatters: copies of a tensor with other elements at indices.
///
/// Negative indices count from the end. What goes to one element is combined in the order of the
/// indices (C order), as a loop over them would, in the type that computes with the elements (`f32`
/// for `f16`, `bf16` and 8-bit floats), and rounded once: the bits are the same on every run and
/// device, where PyTorch's and candle's on GPUs are not.
///
/// All of them wait for the device, to say whether every index names a position. They fail with
/// [`ErrorKind::IndexOutOfRange`] and the first position whose index does not, with
/// [`ErrorKind::Unsupported`] unless the indices are integers, [`ErrorKind::DtypeMismatch`] unless
/// the source has the tensor's type, [`ErrorKind::AxisOutOfRange`], [`ErrorKind::Operand`] for
/// shapes that do not fit, and [`ErrorKind::TooLarge`] for more than 2^30 indices.
impl Tensor {
    /// A copy with each element of the source where its index says: `out[indices[i][j]][j] =
    /// source[i][j]` for axis 0. Of several sources for one element the last one wins. The indices
    /// have as many axes as the tensor, and are in none larger than the source, and in no other
    /// than `axis` larger than the tensor.
    ///
    /// ```
    /// use warpfold::{Device, Profile, Tensor};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0, 3.0], [4.0, 5.0, 6.0]], &device)?;
    /// let indices = Tensor::new(&[[2_i64, 0], [1, 1]], &device)?;
    /// let source = Tensor::new(&[[10_f32, 20.0], [30.0, 40.0]], &device)?;
    /// let scattered = x.scatter(&indices, &source, 1)?;
    /// assert_eq!(scattered.to_vec2::<f32>()?, [[20.0, 2.0, 10.0], [4.0, 40.0, 6.0]]);
    /// let added = x.scatter_add(&indices, &source, 1)?;
    /// assert_eq!(added.to_vec2::<f32>()?, [[21.0, 2.0, 13.0], [4.0, 75.0, 6.0]]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of this family, above.
    pub fn scatter(&self, indices: &Self, source: &Self, axis: isize) -> Result<Self, Error> {
        self.scattered(indices, source, axis, Combination::last("scatter"))
    }

    /// A copy with each element of the source added where its index says: see [`Tensor::scatter`].
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// let to = Tensor::new(&[0_u32, 0, 1], &device)?;
    /// assert_eq!(v.zeros_like()?.scatter_add(&to, &v, 0)?.to_vec::<f32>()?, [4.0, 2.0, 0.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of this family, above.
    pub fn scatter_add(&self, indices: &Self, source: &Self, axis: isize) -> Result<Self, Error> {
        self.scattered(indices, source, axis, Combination::sum("scatter_add"))
    }

    /// Variant of [`Tensor::scatter`] that writes the sum, product, maximum or minimum of all
    /// sources of an element and, with `include_self`, the element itself. A NaN is the largest and
    /// the smallest.
    ///
    /// ```
    /// use warpfold::reductions::Reduction;
    /// use warpfold::{Device, Profile, Tensor};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[9_i32, 9, 9], &device)?;
    /// let indices = Tensor::new(&[0_i64, 2, 0], &device)?;
    /// let source = Tensor::new(&[3_i32, 4, 5], &device)?;
    /// let largest = x.scatter_reduce(&indices, &source, 0, Reduction::Max, false)?;
    /// assert_eq!(largest.to_vec::<i32>()?, [5, 9, 4]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of this family, above; [`ErrorKind::Operand`] for another reduction.
    pub fn scatter_reduce(
        &self,
        indices: &Self,
        source: &Self,
        axis: isize,
        reduction: Reduction,
        include_self: bool,
    ) -> Result<Self, Error> {
        let (operator, reduction, include_table) = ("scatter_reduce", Some(reduction), include_self);
        self.scattered(indices, source, axis, Combination { operator, reduction, include_table })
    }

    /// A copy with each part of the source along an axis added to the one that its index names:
    /// `out[indices[i]] += source[i]` for axis 0. The indices have one axis.
    ///
    /// ```
    /// use warpfold::{Device, Profile, Tensor};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// let rows = Tensor::new(&[[10_f32, 20.0], [30.0, 40.0], [50.0, 60.0]], &device)?;
    /// let sums = x.index_add(&Tensor::new(&[1_u32, 0, 1], &device)?, &rows, 0)?;
    /// assert_eq!(sums.to_vec2::<f32>()?, [[31.0, 42.0], [63.0, 84.0]]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of this family, above.
    pub fn index_add(&self, indices: &Self, source: &Self, axis: isize) -> Result<Self, Error> {
        self.indexed(indices, source, axis, Combination::sum("index_add"))
    }

    /// A copy with each part of the source along an axis in the place of the one that its index
    /// names; of several the last one wins.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.index_copy(&Tensor::new(&[1_u32], &device)?, &x.narrow(0, 0, 1)?, 0)?.to_vec::<f32>()?, [1.0, 2.0, 1.0, 2.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of this family, above.
    pub fn index_copy(&self, indices: &Self, source: &Self, axis: isize) -> Result<Self, Error> {
        self.indexed(indices, source, axis, Combination::last("index_copy"))
    }

    /// Variant of [`Tensor::index_add`] with the reductions of [`Tensor::scatter_reduce`].
    ///
    /// # Errors
    /// Those of this family, above; [`ErrorKind::Operand`] for another reduction.
    pub fn index_reduce(
        &self,
        indices: &Self,
        source: &Self,
        axis: isize,
        reduction: Reduction,
        include_self: bool,
    ) -> Result<Self, Error> {
        let (operator, reduction, include_table) = ("index_reduce", Some(reduction), include_self);
        self.indexed(indices, source, axis, Combination { operator, reduction, include_table })
    }

    fn scattered(&self, indices: &Self, source: &Self, axis: isize, how: Combination) -> Result<Self, Error> {
        let refuse = |reason: String| Error::from(ErrorKind::Operand { operator: how.operator, reason });
        let axis = self.axis(axis)?;
        for (what, other) in [("indices", indices), ("source", source)] {
            if other.rank() != self.rank() {
                let (found, expected) = (other.rank(), self.rank());
                return Err(refuse(format!("the {what} have {found} axes, the tensor has {expected}")));
            }
        }
        let mut seen = source.clone();
        for (dim, asked) in indices.shape().iter().copied().enumerate() {
            let (size, sources) = (self.shape()[dim], source.shape()[dim]);
            if dim != axis && asked > size {
                return Err(refuse(format!("the indices have {asked} in axis {dim}, the tensor has {size}")));
            }
            if asked > sources {
                return Err(refuse(format!("the indices have {asked} in axis {dim}, the source has {sources}")));
            }
            seen = seen.slice(dim as isize, ..asked)?;
        }
        self.combined(indices, &seen, axis, how)
    }

    fn indexed(&self, indices: &Self, source: &Self, axis: isize, how: Combination) -> Result<Self, Error> {
        let refuse = |reason: String| Error::from(ErrorKind::Operand { operator: how.operator, reason });
        let axis = self.axis(axis)?;
        if indices.rank() != 1 {
            return Err(refuse(format!("the indices have {} axes, one is needed", indices.rank())));
        }
        let mut expected = self.shape().to_vec();
        expected[axis] = indices.len();
        if source.shape() != expected {
            let found = source.shape();
            return Err(refuse(format!("the source is {found:?}; these indices along axis {axis} take {expected:?}")));
        }
        self.combined(indices, source, axis, how)
    }

    /// Scatters a source whose shape is right.
    fn combined(&self, indices: &Self, source: &Self, axis: usize, how: Combination) -> Result<Self, Error> {
        source.expect_dtype(&format!("the source of {}", how.operator), self.dtype())?;
        let (indices, source) = (indices.contiguous()?, source.contiguous()?);
        let mut table = self.copy()?;
        let mut bad = self.device().upload(&[Gather::NO_BAD_POSITION])?;
        let problem = Problem {
            dtype: self.dtype(),
            indices: indices.dtype(),
            table: self.shape().to_vec(),
            axis,
            shape: indices.shape().to_vec(),
            combine: how.reduction,
            include_table: how.include_table,
        };
        let inputs = [Some(indices.memory_view()?), Some(source.memory_view()?)];
        self.queue().run(&Scatter, problem, &inputs, &mut [table.view_mut()?, bad.as_view_mut().bytes()])?;
        let mut position = [Gather::NO_BAD_POSITION];
        self.queue().stream().copy_to_host(&bad, &mut position)?;
        match position[0] {
            Gather::NO_BAD_POSITION => Ok(table),
            position => Err(ErrorKind::IndexOutOfRange { position, rows: self.shape()[axis] as u64 }.into()),
        }
    }
}
