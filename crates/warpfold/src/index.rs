//! Parts of a tensor: by position and range, which are views, and by tensors of indices.

use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};
use std::sync::LazyLock;

use warpfold_kernels::elements::{Sink, Source};
use warpfold_kernels::map::Map;
use warpfold_kernels::operations::{Operation, Options};
use warpfold_kernels::{Dtype, Error, ErrorKind};
use warpfold_lang::Val;

use crate::{Shape, Tensor};

/// The index into one axis; negative positions count from the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Index {
    /// One position; the axis goes.
    At(isize),
    /// From a position up to another one, which is not among them; `None` is the end.
    Range(isize, Option<isize>),
}

/// Arguments of [`Tensor::i`]: an [`Index`] for each of the first axes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Indices(Vec<Index>);

impl From<RangeFull> for Index {
    fn from(_: RangeFull) -> Self {
        Self::Range(0, None)
    }
}

macro_rules! of_numbers {
    ($($number:ty),*) => {$(
        impl From<$number> for Index {
            fn from(position: $number) -> Self {
                Self::At(position as isize)
            }
        }

        impl From<Range<$number>> for Index {
            fn from(range: Range<$number>) -> Self {
                Self::Range(range.start as isize, Some(range.end as isize))
            }
        }

        impl From<RangeFrom<$number>> for Index {
            fn from(range: RangeFrom<$number>) -> Self {
                Self::Range(range.start as isize, None)
            }
        }

        impl From<RangeTo<$number>> for Index {
            fn from(range: RangeTo<$number>) -> Self {
                Self::Range(0, Some(range.end as isize))
            }
        }

        impl From<RangeInclusive<$number>> for Index {
            fn from(range: RangeInclusive<$number>) -> Self {
                Self::Range(*range.start() as isize, after(*range.end() as isize))
            }
        }

        impl From<RangeToInclusive<$number>> for Index {
            fn from(range: RangeToInclusive<$number>) -> Self {
                Self::Range(0, after(range.end as isize))
            }
        }
    )*};
}

of_numbers!(i32, isize, usize);

/// The end of a range whose last position is this one: after -1 it is the end.
fn after(last: isize) -> Option<isize> {
    (last != -1).then(|| last.saturating_add(1))
}

impl<A: Into<Index>> From<A> for Indices {
    fn from(index: A) -> Self {
        Self(vec![index.into()])
    }
}

impl<A: Into<Index>, const N: usize> From<[A; N]> for Indices {
    fn from(indices: [A; N]) -> Self {
        Self(indices.into_iter().map(Into::into).collect())
    }
}

impl<A: Into<Index> + Clone, const N: usize> From<&[A; N]> for Indices {
    fn from(indices: &[A; N]) -> Self {
        indices.clone().into()
    }
}

macro_rules! tuples {
    ($(($($name:ident $index:ident),+);)*) => {$(
        impl<$($index: Into<Index>),+> From<($($index,)+)> for Indices {
            fn from(($($name,)+): ($($index,)+)) -> Self {
                Self(vec![$($name.into()),+])
            }
        }
    )*};
}

tuples! {
    (a A, b B);
    (a A, b B, c C);
    (a A, b B, c C, d D);
    (a A, b B, c C, d D, e E);
}

impl Tensor {
    /// A view of what the indices say of the first axes: a position takes its axis away, a range
    /// keeps it. Negative positions count from the end.
    ///
    /// ```
    /// use warpfold::{Device, Profile, Tensor};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_i32, 2, 3], [4, 5, 6]], &device)?;
    /// assert_eq!(x.i((0, ..))?.to_vec1::<i32>()?, [1, 2, 3]);
    /// assert_eq!(x.i((.., -1))?.to_vec1::<i32>()?, [3, 6]);
    /// assert_eq!(x.i((1, ..2))?.to_vec1::<i32>()?, [4, 5]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::AxisOutOfRange`] for more indices than axes, [`ErrorKind::SliceOutOfRange`],
    /// [`ErrorKind::Operand`] for a position that the axis does not have.
    pub fn i(&self, indices: impl Into<Indices>) -> Result<Self, Error> {
        let mut tensor = self.clone();
        let mut axis = 0;
        for (place, index) in indices.into().0.into_iter().enumerate() {
            let Some(size) = self.shape().get(place).copied() else {
                return Err(ErrorKind::AxisOutOfRange { axis: place as isize, rank: self.rank() }.into());
            };
            let from_start = |position: isize| if position < 0 { position + size as isize } else { position };
            match index {
                Index::At(position) => {
                    let Some(start) = usize::try_from(from_start(position)).ok().filter(|start| *start < size) else {
                        let reason = format!("axis {place} has {size} position(s), and none at {position}");
                        return Err(ErrorKind::Operand { operator: "i", reason }.into());
                    };
                    tensor = tensor.slice(axis, start..start + 1)?.squeeze(axis)?;
                }
                Index::Range(start, end) => {
                    let (low, high) = (from_start(start), end.map_or(size as isize, from_start));
                    let (Ok(low), Ok(high)) = (usize::try_from(low), usize::try_from(high)) else {
                        let reason = format!("axis {place} has {size} position(s), too few for {index:?}");
                        return Err(ErrorKind::Operand { operator: "i", reason }.into());
                    };
                    tensor = tensor.slice(axis, low..high)?;
                    axis += 1;
                }
            }
        }
        Ok(tensor)
    }

    /// The view at one position of the first axis, which goes.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.get(1)?.to_vec::<f32>()?, [3.0, 4.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::i`].
    pub fn get(&self, position: usize) -> Result<Self, Error> {
        self.i(position)
    }

    /// `len` positions of an axis, from `start` on, as a view.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.narrow(0, 1, 2)?.to_vec::<f32>()?, [1.0, 2.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::AxisOutOfRange`], [`ErrorKind::SliceOutOfRange`].
    pub fn narrow(&self, axis: isize, start: usize, len: usize) -> Result<Self, Error> {
        self.slice(axis, start..start.saturating_add(len))
    }

    /// The positions of an axis that the indices, one axis of them, name; negative ones count from
    /// the end. Waits for the device, to say whether every index is one.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.index_select(&Tensor::new(&[1_u32, 0], &device)?, 0)?.to_vec::<f32>()?, [3.0, 4.0, 1.0, 2.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::IndexOutOfRange`] with the first position whose index is none,
    /// [`ErrorKind::Unsupported`] unless the indices are integers, [`ErrorKind::AxisOutOfRange`],
    /// [`ErrorKind::Operand`] for indices of another number of axes.
    pub fn index_select(&self, indices: &Self, axis: isize) -> Result<Self, Error> {
        let axis = self.axis(axis)? as isize;
        if indices.rank() != 1 {
            let reason = format!("the indices have {} axes, one is needed", indices.rank());
            return Err(ErrorKind::Operand { operator: "index_select", reason }.into());
        }
        self.transpose(0, axis)?.gather_rows(indices)?.transpose(0, axis)
    }

    /// The rows of a table that the ids name, in the ids' shape.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.embedding(&Tensor::new(&[1_u32, 0], &device)?)?.to_vec::<f32>()?, [3.0, 4.0, 1.0, 2.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::gather_rows`].
    pub fn embedding(&self, ids: &Self) -> Result<Self, Error> {
        self.gather_rows(ids)
    }

    /// For each index the element at that position of an axis, and at the index's own position of
    /// the others: `out[i][j] = self[indices[i][j]][j]` for axis 0. The result has the indices'
    /// shape, which is in no other axis larger than this tensor's. Negative indices count from the
    /// end.
    ///
    /// ```
    /// use warpfold::{Device, Profile, Tensor};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_i32, 2], [3, 4]], &device)?;
    /// let indices = Tensor::new(&[[0_i64, 0], [1, 0]], &device)?;
    /// assert_eq!(x.gather(&indices, 1)?.to_vec2::<i32>()?, [[1, 1], [4, 3]]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] for indices of another number of axes, or larger in one,
    /// [`ErrorKind::IndexOutOfRange`] with the first position whose index is none,
    /// [`ErrorKind::Unsupported`] unless the indices are integers, [`ErrorKind::AxisOutOfRange`].
    pub fn gather(&self, indices: &Self, axis: isize) -> Result<Self, Error> {
        let refuse = |reason: String| Error::from(ErrorKind::Operand { operator: "gather", reason });
        let axis = self.axis(axis)?;
        if !indices.dtype().is_integer() {
            return Err(ErrorKind::Unsupported { op: "gather".to_owned(), dtype: indices.dtype() }.into());
        }
        if indices.rank() != self.rank() {
            return Err(refuse(format!("the indices have {} axes, the tensor has {}", indices.rank(), self.rank())));
        }
        for (dim, (asked, size)) in indices.shape().iter().zip(self.shape()).enumerate() {
            if dim != axis && asked > size {
                return Err(refuse(format!("the indices have {asked} in axis {dim}, the tensor has {size}")));
            }
        }
        let table = self.contiguous()?;
        let stride = table.layout().strides()[axis] as i64;
        // Where position 0 of the axis is, for each index.
        let mut start = Self::filled(self.queue(), Dtype::I64, 0, vec![1; self.rank()])?;
        for dim in (0..self.rank()).filter(|dim| *dim != axis) {
            let len = indices.shape()[dim];
            let step = table.layout().strides()[dim] as i64;
            let mut shape = vec![1; self.rank()];
            shape[dim] = len;
            start = (&start + (Self::arange(0, len as i64, self.queue())? * step)?.reshape(shape)?)?;
        }
        let (size, len) = (self.shape()[axis], self.len());
        let mut positions = indices.to_dtype(Dtype::I64)?;
        if indices.dtype() == Dtype::U64 {
            // The largest have become negative, and count from no end.
            let none = Self::filled(self.queue(), Dtype::I64, i64::MAX, ())?;
            positions = positions.lt(0)?.where_cond(&none, &positions)?;
        }
        let flat = positions.map(&[&start], &flat_positions(size as i64, stride))?.remove(0);
        match table.reshape((len, 1))?.gather_rows(&flat) {
            Err(error) => Err(match *error.kind() {
                ErrorKind::IndexOutOfRange { position, .. } => {
                    ErrorKind::IndexOutOfRange { position, rows: size as u64 }.into()
                }
                _ => error,
            }),
            Ok(elements) => elements.reshape(indices.shape()),
        }
    }

    /// Selects elements of `on_true` where this tensor, of `bool` or integers, is true (or not
    /// zero), else of `on_false`, broadcast to their common shape.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.gt(1.5)?.where_cond(&v, &v.zeros_like()?)?.to_vec::<f32>()?, [3.0, 0.0, 2.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::ShapeMismatch`], [`ErrorKind::DtypeMismatch`].
    pub fn where_cond(&self, on_true: &Self, on_false: &Self) -> Result<Self, Error> {
        let condition = if self.dtype() == Dtype::Bool { self.clone() } else { self.cast(Dtype::Bool)? };
        condition.elementwise(Operation::Where, &[on_true, on_false], &Options::default())
    }

    /// This tensor, but a number where the mask, broadcast to it, is true (or not zero).
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.masked_fill(&v.gt(2.0)?, 0.0)?.to_vec::<f32>()?, [0.0, 1.0, 2.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::ShapeMismatch`], [`ErrorKind::OptionOutOfRange`] for integers and a number that
    /// is not whole.
    pub fn masked_fill(
        &self,
        mask: &Self,
        number: impl Into<warpfold_kernels::operations::Number>,
    ) -> Result<Self, Error> {
        mask.where_cond(&self.number(Operation::Fill, number.into())?, self)
    }

    /// The elements of this tensor repeated to a shape, as a view; `broadcast_as` and `expand` are
    /// the same.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.broadcast_as((2, 3))?.dims(), [2, 3]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::ShapeMismatch`].
    pub fn broadcast_as(&self, shape: impl Into<Shape>) -> Result<Self, Error> {
        self.broadcast(shape)
    }

    /// Alias of [`Tensor::broadcast_as`].
    ///
    /// # Errors
    /// [`ErrorKind::ShapeMismatch`].
    pub fn expand(&self, shape: impl Into<Shape>) -> Result<Self, Error> {
        self.broadcast(shape)
    }
}

/// The position among all elements, for an index into an axis and the position of the axis's start;
/// one that no tensor has for an index that is none.
fn flat_positions(size: i64, stride: i64) -> Map {
    // One map for all sizes, so that its kernel is built once.
    static POSITIONS: LazyLock<Map> = LazyLock::new(|| {
        let source = Source::one::<i64>(Dtype::I64).zip(Source::one::<i64>(Dtype::I64));
        let sink = Sink::one::<i64>(Dtype::I64);
        Map::with_scalars(
            "gather_positions",
            source,
            |(index, start): (Val<i64>, Val<i64>), scalars| {
                let (size, stride) = (scalars.get::<i64>(0), scalars.get::<i64>(1));
                let from_start = index.lt(0_i64).select(index + size, index);
                let is_index = from_start.ge(0_i64) & from_start.lt(size);
                is_index.select::<i64>(from_start * stride + start, i64::MAX)
            },
            sink,
        )
    });
    POSITIONS.clone().scalars([size as u64, stride as u64])
}
