//! Elements in another arrangement, by the names of PyTorch and candle.

use std::borrow::Borrow;

use warpfold_kernels::layout::Layout;
use warpfold_kernels::{Dtype, Error, ErrorKind};

use crate::{Shape, Tensor};

/// Axes moved, taken apart and repeated.
impl Tensor {
    /// Alias of [`Tensor::transpose`].
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.swapaxes(0, 1)?.to_vec::<f32>()?, [1.0, 3.0, 2.0, 4.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::transpose`].
    pub fn swapaxes(&self, first: isize, second: isize) -> Result<Self, Error> {
        self.transpose(first, second)
    }

    /// Alias of [`Tensor::transpose`].
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.swapdims(0, 1)?.to_vec::<f32>()?, [1.0, 3.0, 2.0, 4.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::transpose`].
    pub fn swapdims(&self, first: isize, second: isize) -> Result<Self, Error> {
        self.transpose(first, second)
    }

    /// An axis at another position; the others keep their order.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.movedim(0, 1)?.to_vec::<f32>()?, [1.0, 3.0, 2.0, 4.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::AxisOutOfRange`].
    pub fn movedim(&self, from: isize, to: isize) -> Result<Self, Error> {
        let (from, to) = (self.axis(from)?, self.axis(to)?);
        let mut order: Vec<isize> = (0..self.rank() as isize).collect();
        let axis = order.remove(from);
        order.insert(to, axis);
        self.permute(&order)
    }

    /// Alias of [`Tensor::movedim`].
    ///
    /// ```
    /// # use warpfold::{Device, Dtype, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::zeros((2, 3, 4), Dtype::F32, &device)?;
    /// assert_eq!(x.moveaxis(0, 2)?.shape(), [3, 4, 2]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::movedim`].
    pub fn moveaxis(&self, from: isize, to: isize) -> Result<Self, Error> {
        self.movedim(from, to)
    }

    /// All dimensions as one: a view where it can be.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.ravel()?.dims(), [4]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::flatten_all`].
    pub fn ravel(&self) -> Result<Self, Error> {
        self.flatten_all()
    }

    /// One axis as several, whose sizes multiply to its size.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.ravel()?.unflatten(0, (2, 2))?.dims(), [2, 2]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::AxisOutOfRange`], and those of [`Tensor::reshape`].
    pub fn unflatten(&self, axis: isize, sizes: impl Into<Shape>) -> Result<Self, Error> {
        let axis = self.axis(axis)?;
        self.reshape([&self.shape()[..axis], sizes.into().sizes(), &self.shape()[axis + 1..]].concat())
    }

    /// A view with the shape of another tensor.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.view_as(&v.unsqueeze(1)?)?.dims(), [3, 1]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::view`].
    pub fn view_as(&self, other: &Self) -> Result<Self, Error> {
        self.view(other.shape())
    }

    /// The elements in the shape of another tensor.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// let y = Tensor::new(&[0_f32, 0.0, 0.0, 0.0], &device)?;
    /// assert_eq!(x.reshape_as(&y)?.shape(), [4]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::reshape`].
    pub fn reshape_as(&self, other: &Self) -> Result<Self, Error> {
        self.reshape(other.shape())
    }

    /// Repeated to the shape of another tensor, as a view.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.i(0)?.expand_as(&x)?.to_vec::<f32>()?, [1.0, 2.0, 1.0, 2.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::broadcast`].
    pub fn expand_as(&self, other: &Self) -> Result<Self, Error> {
        self.broadcast(other.shape())
    }

    /// Alias of [`Tensor::broadcast`].
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.i(0)?.broadcast_to((2, 2))?.to_vec::<f32>()?, [1.0, 2.0, 1.0, 2.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::broadcast`].
    pub fn broadcast_to(&self, shape: impl Into<Shape>) -> Result<Self, Error> {
        self.broadcast(shape)
    }

    /// Repeated along new axes in front, as a view.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.broadcast_left(2)?.dims(), [2, 3]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::broadcast`].
    pub fn broadcast_left(&self, left: impl Into<Shape>) -> Result<Self, Error> {
        self.broadcast([left.into().sizes(), self.shape()].concat())
    }

    /// The view at one position of an axis, which goes; negative ones count from the end.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.select(1, 0)?.to_vec::<f32>()?, [1.0, 3.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::AxisOutOfRange`], [`ErrorKind::Operand`] for a position that the axis does not
    /// have.
    pub fn select(&self, axis: isize, position: isize) -> Result<Self, Error> {
        let axis = self.axis(axis)?;
        let size = self.shape()[axis];
        let from_start = if position < 0 { position + size as isize } else { position };
        let Some(start) = usize::try_from(from_start).ok().filter(|start| *start < size) else {
            let reason = format!("axis {axis} has {size} position(s), and none at {position}");
            return Err(ErrorKind::Operand { operator: "select", reason }.into());
        };
        self.slice(axis as isize, start..start + 1)?.squeeze(axis as isize)
    }

    /// The view at one position of an axis, which goes.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.get_on_dim(1, 1)?.to_vec::<f32>()?, [2.0, 4.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::select`].
    pub fn get_on_dim(&self, axis: isize, position: usize) -> Result<Self, Error> {
        self.select(axis, position as isize)
    }

    /// A view of every position of an axis, which goes.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.unbind(0)?[1].to_vec::<f32>()?, [3.0, 4.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::AxisOutOfRange`].
    pub fn unbind(&self, axis: isize) -> Result<Vec<Self>, Error> {
        (0..self.dim(axis)?).map(|position| self.get_on_dim(axis, position)).collect()
    }

    /// Windows of an axis, `step` apart, as a view: the axis counts windows, and a new last one has
    /// the elements of each.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.unfold(0, 2, 1)?.to_vec::<f32>()?, [3.0, 1.0, 1.0, 2.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::AxisOutOfRange`], [`ErrorKind::TooManyDimensions`]; [`ErrorKind::Operand`] for a
    /// window larger than the axis, and for no step.
    pub fn unfold(&self, axis: isize, size: usize, step: usize) -> Result<Self, Error> {
        let axis = self.axis(axis)?;
        let len = self.shape()[axis];
        if size > len || step == 0 {
            let reason = format!("windows of {size}, {step} apart, do not fit axis {axis} of {len}");
            return Err(ErrorKind::Operand { operator: "unfold", reason }.into());
        }
        let (mut shape, mut strides) = (self.shape().to_vec(), self.layout.strides().to_vec());
        shape[axis] = (len - size) / step + 1;
        shape.push(size);
        strides.push(strides[axis]);
        strides[axis] *= step as isize;
        Ok(Self { layout: Layout::new(shape, strides)?, ..self.clone() })
    }

    /// The diagonal of a matrix, or of each matrix of a batch, as a view.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.diagonal()?.to_vec::<f32>()?, [1.0, 4.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] for fewer than two dimensions.
    pub fn diagonal(&self) -> Result<Self, Error> {
        let ([batch @ .., m, n], [of_batch @ .., down, along]) = (self.shape(), self.layout.strides()) else {
            let reason = format!("a matrix has 2 dimensions, the tensor {}", self.rank());
            return Err(ErrorKind::Operand { operator: "diagonal", reason }.into());
        };
        let layout = Layout::new([batch, &[*m.min(n)]].concat(), [of_batch, &[down + along]].concat())?;
        Ok(Self { layout, ..self.clone() })
    }

    /// The sum of the diagonal of a matrix, or of each matrix of a batch.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.trace()?.to_scalar::<f32>()?, 5.0);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::diagonal`] and [`Tensor::sum`].
    pub fn trace(&self) -> Result<Self, Error> {
        self.diagonal()?.sum(-1)
    }

    /// A matrix, or each of a batch, with zeros above a diagonal: the main one, or the `diagonal`th
    /// above it (below it if negative).
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.tril(0)?.to_vec::<f32>()?, [1.0, 0.0, 3.0, 4.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] for fewer than two dimensions.
    pub fn tril(&self, diagonal: i64) -> Result<Self, Error> {
        self.triangle("tril", |row, column| column.le(&(row + diagonal)?))
    }

    /// A matrix, or each of a batch, with zeros below a diagonal: the main one, or the `diagonal`th
    /// above it (below it if negative).
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.triu(0)?.to_vec::<f32>()?, [1.0, 2.0, 0.0, 4.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] for fewer than two dimensions.
    pub fn triu(&self, diagonal: i64) -> Result<Self, Error> {
        self.triangle("triu", |row, column| column.ge(&(row + diagonal)?))
    }

    fn triangle(
        &self,
        operator: &'static str,
        is_kept: impl Fn(&Self, &Self) -> Result<Self, Error>,
    ) -> Result<Self, Error> {
        let [.., rows, columns] = *self.shape() else {
            let reason = format!("a matrix has 2 dimensions, the tensor {}", self.rank());
            return Err(ErrorKind::Operand { operator, reason }.into());
        };
        let positions = |len: usize| Self::arange(0, len as i64, self.queue());
        let mask = is_kept(&positions(rows)?.unsqueeze(1)?, &positions(columns)?)?;
        mask.where_cond(self, &Self::filled(self.queue(), self.dtype(), 0, ())?)
    }

    /// Elements of an axis moved by so many positions; those that leave at one end come in at the
    /// other.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.roll(1, 0)?.to_vec::<f32>()?, [2.0, 3.0, 1.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::AxisOutOfRange`].
    pub fn roll(&self, shift: isize, axis: isize) -> Result<Self, Error> {
        let len = self.dim(axis)?;
        if len == 0 {
            return Ok(self.clone());
        }
        let start = (-shift).rem_euclid(len as isize) as usize;
        Self::cat(&[self.slice(axis, start..)?, self.slice(axis, ..start)?], axis)
    }

    /// Each position of an axis so many times, one after the other.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.repeat_interleave(2, 0)?.to_vec::<f32>()?, [3.0, 3.0, 1.0, 1.0, 2.0, 2.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::AxisOutOfRange`], [`ErrorKind::TooManyDimensions`].
    pub fn repeat_interleave(&self, times: usize, axis: isize) -> Result<Self, Error> {
        let axis = self.axis(axis)?;
        let (mut repeated, mut merged) = (self.shape().to_vec(), self.shape().to_vec());
        repeated.insert(axis + 1, times);
        merged[axis] *= times;
        self.unsqueeze(axis as isize + 1)?.broadcast(repeated)?.reshape(merged)
    }

    /// Alias of [`Tensor::repeat`].
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.tile(2)?.to_vec::<f32>()?, [3.0, 1.0, 2.0, 3.0, 1.0, 2.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::repeat`].
    pub fn tile(&self, times: impl Into<Shape>) -> Result<Self, Error> {
        self.repeat(times)
    }

    /// A copy with another tensor in the place of the positions of an axis from `start` on.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.slice_scatter(&v.zeros_like()?.narrow(0, 0, 2)?, 0, 1)?.to_vec::<f32>()?, [3.0, 0.0, 0.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::SliceOutOfRange`], and those of [`Tensor::cat`].
    pub fn slice_scatter(&self, source: &Self, axis: isize, start: usize) -> Result<Self, Error> {
        let end = start.saturating_add(source.dim(axis)?);
        Self::cat(&[self.slice(axis, ..start)?, source.clone(), self.slice(axis, end..)?], axis)
    }

    /// Alias of [`Tensor::cat`].
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[1_f32, 2.0], &device)?;
    /// assert_eq!(Tensor::concat(&[&x, &x], 0)?.to_vec::<f32>()?, [1.0, 2.0, 1.0, 2.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::cat`].
    pub fn concat<T: Borrow<Self>>(tensors: &[T], axis: isize) -> Result<Self, Error> {
        Self::cat(tensors, axis)
    }

    /// Tensors side by side: along the second axis, or along the only one.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(Tensor::hstack(&[&v, &v])?.to_vec::<f32>()?, [3.0, 1.0, 2.0, 3.0, 1.0, 2.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::cat`].
    pub fn hstack<T: Borrow<Self>>(tensors: &[T]) -> Result<Self, Error> {
        let has_one_axis = tensors.first().is_some_and(|first| first.borrow().rank() == 1);
        Self::cat(tensors, if has_one_axis { 0 } else { 1 })
    }

    /// Tensors one below the other: along the first axis; those of one axis are rows.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(Tensor::vstack(&[&v, &v])?.dims(), [2, 3]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::cat`].
    pub fn vstack<T: Borrow<Self>>(tensors: &[T]) -> Result<Self, Error> {
        let has_one_axis = tensors.first().is_some_and(|first| first.borrow().rank() == 1);
        if has_one_axis { Self::stack(tensors, 0) } else { Self::cat(tensors, 0) }
    }

    /// Coordinates of a grid, from one list an axis: views of one shape. The first list varies
    /// along the first axis ("ij"), or, with `xy_indexing`, along the second.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(Tensor::meshgrid(&[&v, &v], false)?[0].i(0)?.to_vec::<f32>()?, [3.0, 3.0, 3.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] for a list of other than one axis, [`ErrorKind::TooManyDimensions`].
    pub fn meshgrid<T: Borrow<Self>>(lists: &[T], xy_indexing: bool) -> Result<Vec<Self>, Error> {
        let mut shape: Vec<usize> = lists.iter().map(|list| list.borrow().dims1()).collect::<Result<_, _>>()?;
        let is_swapped = xy_indexing && shape.len() >= 2;
        if is_swapped {
            shape.swap(0, 1);
        }
        let along = |(i, list): (usize, &T)| {
            let axis = if is_swapped && i < 2 { 1 - i } else { i };
            let mut sizes = vec![1; shape.len()];
            sizes[axis] = shape[axis];
            list.borrow().reshape(sizes)?.broadcast(&shape)
        };
        lists.iter().enumerate().map(along).collect()
    }

    /// For each class number a row of zeros with a one at its position, as `i64`; of a number that
    /// is no class, zeros.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// assert_eq!(Tensor::new(&[1_u32, 0], &device)?.one_hot(2)?.to_vec::<i64>()?, [0, 1, 1, 0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] unless the elements are integers.
    pub fn one_hot(&self, classes: usize) -> Result<Self, Error> {
        if !self.dtype().is_integer() {
            return Err(ErrorKind::Unsupported { op: "one_hot".to_owned(), dtype: self.dtype() }.into());
        }
        let numbers = Self::arange(0, classes as i64, self.queue())?;
        self.to_dtype(Dtype::I64)?.unsqueeze(-1)?.eq(&numbers)?.cast(Dtype::I64)
    }

    /// The order of columns turned round.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.fliplr()?.to_vec::<f32>()?, [2.0, 1.0, 4.0, 3.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::AxisOutOfRange`] for a tensor without two axes.
    pub fn fliplr(&self) -> Result<Self, Error> {
        self.flip(1)
    }

    /// The order of rows turned round.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.flipud()?.to_vec::<f32>()?, [3.0, 4.0, 1.0, 2.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::AxisOutOfRange`] for a tensor without axes.
    pub fn flipud(&self) -> Result<Self, Error> {
        self.flip(0)
    }

    /// From each position of an axis to the next.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.diff(0)?.to_vec::<f32>()?, [-2.0, 1.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::AxisOutOfRange`].
    pub fn diff(&self, axis: isize) -> Result<Self, Error> {
        let len = self.dim(axis)?;
        self.slice(axis, 1.min(len)..)?.sub(&self.slice(axis, ..len.saturating_sub(1))?)
    }

    /// A matrix with this list on its diagonal, or one for each list of a batch; zeros elsewhere.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.diag_embed()?.dims(), [3, 3]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] for a tensor without axes.
    pub fn diag_embed(&self) -> Result<Self, Error> {
        let Some(len) = self.shape().last().copied() else {
            let reason = "a tensor without axes has no list".to_owned();
            return Err(ErrorKind::Operand { operator: "diag_embed", reason }.into());
        };
        let mask = Self::eye(len, warpfold_kernels::Dtype::Bool, self.queue())?;
        mask.where_cond(&self.unsqueeze(-1)?, &Self::filled(self.queue(), self.dtype(), 0, ())?)
    }

    /// The diagonal of a matrix, or a matrix with a list on its diagonal.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.diag()?.to_vec::<f32>()?, [1.0, 4.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] for a tensor of other than one or two axes.
    pub fn diag(&self) -> Result<Self, Error> {
        match self.rank() {
            1 => self.diag_embed(),
            2 => self.diagonal(),
            rank => {
                let reason = format!("a list or a matrix is expected, not {rank} axes");
                Err(ErrorKind::Operand { operator: "diag", reason }.into())
            }
        }
    }
}
