//! Tensors put together along an axis, and taken apart.

use std::borrow::Borrow;

use warpfold_kernels::layout::Layout;
use warpfold_kernels::map::copy_of;
use warpfold_kernels::plan::TensorSpec;
use warpfold_kernels::{Error, ErrorKind};

use crate::tensor::Allocated;
use crate::{Shape, Tensor};

impl Tensor {
    /// The tensors one after the other along an axis that they have; they agree in all others.
    ///
    /// ```
    /// use warpfold::{Device, Profile, Tensor};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let (x, y) = (Tensor::new(&[[1_i32, 2]], &device)?, Tensor::new(&[[3_i32, 4], [5, 6]], &device)?);
    /// assert_eq!(Tensor::cat(&[&x, &y], 0)?.to_vec2::<i32>()?, [[1, 2], [3, 4], [5, 6]]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] for no tensor, or for one that differs in another axis,
    /// [`ErrorKind::DtypeMismatch`], [`ErrorKind::AxisOutOfRange`].
    pub fn cat<T: Borrow<Self>>(tensors: &[T], axis: isize) -> Result<Self, Error> {
        let refuse = |reason: String| Error::from(ErrorKind::Operand { operator: "cat", reason });
        let tensors: Vec<&Self> = tensors.iter().map(Borrow::borrow).collect();
        let [first, others @ ..] = &tensors[..] else { return Err(refuse("no tensor was given".to_owned())) };
        let axis = first.axis(axis)?;
        let mut shape = first.shape().to_vec();
        for (number, other) in (1..).zip(others) {
            other.expect_dtype(&format!("tensor {number} of cat"), first.dtype())?;
            if other.rank() != first.rank() {
                let (found, expected) = (other.rank(), first.rank());
                return Err(refuse(format!("tensor {number} has {found} dimension(s), tensor 0 has {expected}")));
            }
            for (dim, (found, expected)) in other.shape().iter().zip(first.shape()).enumerate() {
                if dim != axis && found != expected {
                    return Err(refuse(format!("tensor {number} has {found} in axis {dim}, tensor 0 has {expected}")));
                }
            }
            shape[axis] += other.shape()[axis];
        }
        let queue = first.queue();
        let mut output = Allocated::new(queue, first.dtype(), &shape)?;
        let (map, scale) = (copy_of(first.dtype()), first.dtype().bytes());
        let mut before = 0;
        for tensor in &tensors {
            let start = before as u64 * output.layout.strides()[axis] as u64 * scale;
            before += tensor.shape()[axis];
            if tensor.is_empty() {
                continue;
            }
            let part = Layout::new(tensor.shape().to_vec(), output.layout.strides().to_vec())?;
            let part = TensorSpec::new(first.dtype(), part, output.buffer.address() + start);
            let problem = map.problem(vec![tensor.spec()], vec![part]);
            queue.run(
                &map,
                problem,
                &[Some(tensor.memory_view()?)],
                &mut [output.buffer.view_mut(start as usize..)?],
            )?;
        }
        Ok(output.finish())
    }

    /// The tensors, which have one shape, along a new axis at this position.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(Tensor::stack(&[&v, &v], 0)?.dims(), [2, 3]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Tensor::cat`].
    pub fn stack<T: Borrow<Self>>(tensors: &[T], axis: isize) -> Result<Self, Error> {
        let with_axis: Vec<Self> =
            tensors.iter().map(|tensor| tensor.borrow().unsqueeze(axis)).collect::<Result<_, _>>()?;
        // A position of the result, so that it counts from the end as `unsqueeze` does.
        Self::cat(&with_axis, axis)
    }

    /// At most so many views of equal size along an axis; the last one may be smaller.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.chunk(3, 0)?[1].to_vec::<f32>()?, [1.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::AxisOutOfRange`]; [`ErrorKind::OptionOutOfRange`] for no chunk.
    pub fn chunk(&self, chunks: usize, axis: isize) -> Result<Vec<Self>, Error> {
        if chunks == 0 {
            let expected = "of at least 1".to_owned();
            return Err(ErrorKind::OptionOutOfRange { op: "chunk".to_owned(), option: "chunks", expected }.into());
        }
        let size = self.dim(axis)?;
        let step = size.div_ceil(chunks).max(1);
        let starts = (0..size.max(1)).step_by(step);
        starts.map(|start| self.slice(axis, start..(start + step).min(size))).collect()
    }

    /// Views of these sizes, one after the other along an axis, which they fill.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.split(1, 0)?.len(), 3);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::AxisOutOfRange`]; [`ErrorKind::Operand`] for sizes that do not fill the axis.
    pub fn split<'b>(&self, sizes: impl Into<PartSizes<'b>>, axis: isize) -> Result<Vec<Self>, Error> {
        let sizes = match sizes.into() {
            PartSizes::Each(0) => {
                let reason = "parts of no position".to_owned();
                return Err(ErrorKind::Operand { operator: "split", reason }.into());
            }
            PartSizes::Each(each) => {
                let size = self.dim(axis)?;
                (0..size).step_by(each).map(|start| each.min(size - start)).collect()
            }
            PartSizes::List(sizes) => sizes.to_vec(),
        };
        let (size, sum) = (self.dim(axis)?, sizes.iter().fold(0_usize, |sum, size| sum.saturating_add(*size)));
        if size != sum {
            let reason = format!("sizes {sizes:?} add up to {sum}, axis {axis} has {size}");
            return Err(ErrorKind::Operand { operator: "split", reason }.into());
        }
        let mut start = 0;
        let part = |size: &usize| {
            start += size;
            self.slice(axis, start - size..start)
        };
        sizes.iter().map(part).collect()
    }

    /// The tensor so many times along each axis, as NumPy's `tile`.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.repeat(2)?.to_vec::<f32>()?, [3.0, 1.0, 2.0, 3.0, 1.0, 2.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::TooManyDimensions`], [`ErrorKind::TooLarge`].
    pub fn repeat(&self, times: impl Into<Shape>) -> Result<Self, Error> {
        let times = times.into();
        let rank = self.rank().max(times.sizes().len());
        let padded = |sizes: &[usize]| [vec![1; rank - sizes.len()], sizes.to_vec()].concat();
        let (shape, times) = (padded(self.shape()), padded(times.sizes()));
        // One axis after the other, so that no more than one more axis is needed than there are.
        let mut tensor = self.reshape(&shape)?;
        for (axis, times) in times.into_iter().enumerate().filter(|(_, times)| *times != 1) {
            tensor = match times {
                0 => tensor.slice(axis as isize, 0..0)?,
                _ => Self::cat(&vec![&tensor; times], axis as isize)?,
            };
        }
        Ok(tensor)
    }

    /// Zeros around an axis: so many before it and after it.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let v = Tensor::new(&[3_f32, 1.0, 2.0], &device)?;
    /// assert_eq!(v.pad_with_zeros(0, 1, 0)?.to_vec::<f32>()?, [0.0, 3.0, 1.0, 2.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::AxisOutOfRange`].
    pub fn pad_with_zeros(&self, axis: isize, before: usize, after: usize) -> Result<Self, Error> {
        let position = self.axis(axis)?;
        let zeros = |size: usize| {
            let mut shape = self.shape().to_vec();
            shape[position] = size;
            Self::filled(self.queue(), self.dtype(), 0, shape)
        };
        Self::cat(&[zeros(before)?, self.clone(), zeros(after)?], axis)
    }
}

/// The sizes of the parts that [`Tensor::split`] makes: of each (the last may be smaller), or a
/// list of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartSizes<'a> {
    /// Size of each part; the last may be smaller.
    Each(usize),
    /// Sizes of all parts, concatenated.
    List(&'a [usize]),
}

impl From<usize> for PartSizes<'_> {
    fn from(each: usize) -> Self {
        Self::Each(each)
    }
}

impl<'a> From<&'a [usize]> for PartSizes<'a> {
    fn from(sizes: &'a [usize]) -> Self {
        Self::List(sizes)
    }
}

impl<'a> From<&'a Vec<usize>> for PartSizes<'a> {
    fn from(sizes: &'a Vec<usize>) -> Self {
        Self::List(sizes)
    }
}

impl<'a, const N: usize> From<&'a [usize; N]> for PartSizes<'a> {
    fn from(sizes: &'a [usize; N]) -> Self {
        Self::List(sizes)
    }
}
