//! Device memory with a shape, strides and an element type.

use std::fmt;
use std::sync::Arc;

use warpfold_device::{Buffer, Device, HostView, HostViewMut, View, ViewMut};
use warpfold_kernels::layout::Layout;
use warpfold_kernels::plan::{Family, TensorSpec};
use warpfold_kernels::{Dtype, Error, ErrorKind};

use crate::arena::Memory;
use crate::{Queue, Shape, TensorElement};

/// A tensor of up to 8 dimensions. Cheap to clone; clones and views share the memory, which no
/// operator changes.
#[derive(Clone)]
pub struct Tensor {
    pub(crate) queue: Queue,
    pub(crate) memory: Arc<Memory>,
    /// Position of the first element in the memory, in elements.
    pub(crate) first: usize,
    pub(crate) layout: Layout,
    pub(crate) dtype: Dtype,
}

/// Making tensors, and taking their elements back.
impl Tensor {
    /// A tensor of these elements, in C order.
    ///
    /// ```
    /// use warpfold::{Device, Profile, Tensor};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], (2, 2), &device)?;
    /// assert_eq!(x.to_vec2::<f32>()?, [[1.0, 2.0], [3.0, 4.0]]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::LengthMismatch`] unless the shape has as many elements.
    pub fn from_slice<T: TensorElement>(
        elements: &[T],
        shape: impl Into<Shape>,
        at: impl Into<Queue>,
    ) -> Result<Self, Error> {
        Self::from_bytes(&at.into(), T::DTYPE, bytemuck::cast_slice(elements), shape.into().sizes())
    }

    /// A tensor of elements of any type, given as little-endian bytes in C order.
    ///
    /// # Errors
    /// [`ErrorKind::LengthMismatch`] unless there are as many bytes as the shape needs.
    pub fn from_bytes(queue: &Queue, dtype: Dtype, bytes: &[u8], shape: &[usize]) -> Result<Self, Error> {
        let mut tensor = Allocated::new(queue, dtype, shape)?;
        if bytes.len() != tensor.layout.len() * dtype.bytes() as usize {
            let (shape, found) = (shape.to_vec(), bytes.len() / dtype.bytes() as usize);
            return Err(ErrorKind::LengthMismatch { shape, found }.into());
        }
        queue.stream().copy_from_host(tensor.buffer.view_mut(..bytes.len())?, bytes)?;
        Ok(tensor.finish())
    }

    /// A tensor of any content, to be written before it is read.
    ///
    /// # Errors
    /// [`ErrorKind::TooLarge`], and what the device says.
    pub fn uninitialized(queue: &Queue, dtype: Dtype, shape: &[usize]) -> Result<Self, Error> {
        Ok(Allocated::new(queue, dtype, shape)?.finish())
    }

    /// A tensor of memory that is on the device already; nothing is copied. The memory may be
    /// somebody else's: see [`Buffer::from_raw`].
    ///
    /// # Errors
    /// [`ErrorKind::LengthMismatch`] unless the buffer has at least as many elements as the shape.
    pub fn from_buffer<T: TensorElement>(queue: &Queue, buffer: Buffer<T>, shape: &[usize]) -> Result<Self, Error> {
        let layout = Layout::contiguous(shape)?;
        if buffer.len() < layout.len() {
            return Err(ErrorKind::LengthMismatch { shape: shape.to_vec(), found: buffer.len() }.into());
        }
        let (queue, memory) = (queue.clone(), Arc::new(buffer.into_bytes().into()));
        Ok(Self { queue, memory, first: 0, layout, dtype: T::DTYPE })
    }

    /// The memory of a tensor that owns all of it, if nobody else has a view of it; else the tensor
    /// itself.
    ///
    /// # Errors
    /// The tensor, if its memory is shared or not all of it is seen.
    pub fn into_buffer(self) -> Result<Buffer<u8>, Self> {
        let is_whole = !self.memory.is_foreign()
            && self.first == 0
            && self.layout.is_contiguous()
            && self.memory.len() == self.len() * self.dtype.bytes() as usize;
        if !is_whole {
            return Err(self);
        }
        let Self { queue, memory, first, layout, dtype } = self;
        let memory = Arc::try_unwrap(memory).map_err(|memory| Self { queue, memory, first, layout, dtype })?;
        Ok(memory.into_buffer())
    }

    /// The elements, in C order.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.t()?.to_vec::<f32>()?, [1.0, 3.0, 2.0, 4.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] unless `T` is their type.
    pub fn to_vec<T: TensorElement>(&self) -> Result<Vec<T>, Error> {
        if self.dtype != T::DTYPE {
            let reason = format!("the tensor's elements are {}, {} is asked for: cast first", self.dtype, T::DTYPE);
            return Err(ErrorKind::Operand { operator: "to_vec", reason }.into());
        }
        let bytes = self.to_bytes()?;
        Ok(bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect())
    }

    /// The elements as little-endian bytes, in C order.
    ///
    /// # Errors
    /// What the device says.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        let scale = self.dtype.bytes() as usize;
        let (low, high) = self.extent();
        let mut span = vec![0; (high - low) * scale];
        let view = self.memory.view(low * scale..high * scale)?;
        self.queue.stream().copy_to_host(view, &mut span)?;
        if self.layout.is_contiguous() {
            return Ok(span);
        }
        let mut bytes = Vec::with_capacity(self.len() * scale);
        let mut copy = |position: usize| bytes.extend_from_slice(&span[position * scale..][..scale]);
        walk(self.layout.shape(), self.layout.strides(), (self.first - low) as isize, &mut copy);
        Ok(bytes)
    }

    /// Starts to copy pinned bytes over the tensor's elements, which lie side by side; writing to
    /// the pinned bytes later waits until that is done. No clone and no view of the tensor may be
    /// left.
    ///
    /// # Errors
    /// [`ErrorKind::SharedMemory`], [`ErrorKind::LengthMismatch`] unless there are as many bytes as
    /// elements need; what the device says.
    pub fn copy_from_pinned(&mut self, bytes: HostView<'_, u8>) -> Result<(), Error> {
        let found = bytes.len() / self.dtype.bytes() as usize;
        if found != self.len() {
            return Err(ErrorKind::LengthMismatch { shape: self.shape().to_vec(), found }.into());
        }
        self.copy_part_from_pinned(0, bytes)
    }

    /// Variant of [`copy_from_pinned`](Self::copy_from_pinned) for consecutive elements, from the
    /// one at `first`.
    ///
    /// # Errors
    /// [`ErrorKind::LengthMismatch`] unless the elements lie side by side and there are as many
    /// from `first` on; those of [`copy_from_pinned`](Self::copy_from_pinned).
    pub fn copy_part_from_pinned(&mut self, first: usize, bytes: HostView<'_, u8>) -> Result<(), Error> {
        let size = self.dtype.bytes() as usize;
        let found = bytes.len() / size;
        if !self.layout.is_contiguous() || found * size != bytes.len() || self.len().saturating_sub(first) < found {
            return Err(ErrorKind::LengthMismatch { shape: self.shape().to_vec(), found }.into());
        }
        let (stream, part) = (self.queue.stream().clone(), first * size..(first + found) * size);
        Ok(stream.copy_from_host_async(self.view_mut()?.slice(part)?, bytes)?)
    }

    /// Starts to copy the tensor's elements, which lie side by side, to pinned bytes; looking at
    /// those later waits until that is done, and not for what the stream does after it.
    ///
    /// # Errors
    /// [`ErrorKind::LengthMismatch`] unless there are as many bytes as elements have; what the
    /// device says.
    pub fn copy_to_pinned(&self, bytes: HostViewMut<'_, u8>) -> Result<(), Error> {
        let needed = self.len() * self.dtype.bytes() as usize;
        if !self.layout.is_contiguous() || bytes.len() != needed {
            let (shape, found) = (self.shape().to_vec(), bytes.len() / self.dtype.bytes() as usize);
            return Err(ErrorKind::LengthMismatch { shape, found }.into());
        }
        Ok(self.queue.stream().copy_to_host_async(self.memory_view()?.slice(..needed)?, bytes)?)
    }

    /// Copies the elements of another tensor over the first ones of this one, in memory's order;
    /// both lie side by side. No clone and no view of this tensor may be left.
    ///
    /// # Errors
    /// [`ErrorKind::SharedMemory`], [`ErrorKind::DtypeMismatch`], [`ErrorKind::LengthMismatch`] if
    /// the other one has more elements or either does not lie side by side; what the device says.
    pub fn copy_over_first(&mut self, from: &Self) -> Result<(), Error> {
        from.expect_dtype("what is copied", self.dtype)?;
        if !self.layout.is_contiguous() || !from.layout.is_contiguous() || from.len() > self.len() {
            return Err(ErrorKind::LengthMismatch { shape: self.shape().to_vec(), found: from.len() }.into());
        }
        let (stream, bytes) = (self.queue.stream().clone(), from.len() * self.dtype.bytes() as usize);
        let source = from.memory_view()?.slice(..bytes)?;
        Ok(stream.copy(self.view_mut()?.slice(..bytes)?, source)?)
    }

    /// The range of the elements' positions in memory.
    pub(crate) fn extent(&self) -> (usize, usize) {
        if self.is_empty() {
            return (self.first, self.first);
        }
        let (mut low, mut high) = (self.first as isize, self.first as isize);
        for (size, stride) in self.layout.shape().iter().zip(self.layout.strides()) {
            let reach = (*size as isize - 1) * stride;
            low += reach.min(0);
            high += reach.max(0);
        }
        (low as usize, high as usize + 1)
    }
}

/// Visits the position of every element in C order.
pub(crate) fn walk(shape: &[usize], strides: &[isize], first: isize, visit: &mut impl FnMut(usize)) {
    match (shape, strides) {
        ([size, shape @ ..], [stride, strides @ ..]) => {
            (0..*size as isize).for_each(|i| walk(shape, strides, first + i * stride, visit));
        }
        _ => visit(first as usize),
    }
}

/// Properties.
impl Tensor {
    /// The sizes, outermost first.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.shape(), [2, 2]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        self.layout.shape()
    }

    /// Shape and strides.
    #[must_use]
    pub const fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The element type.
    ///
    /// ```
    /// # use warpfold::{DType, Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.dtype(), DType::F32);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    #[must_use]
    pub const fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Dimensions.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.rank(), 2);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    #[must_use]
    pub fn rank(&self) -> usize {
        self.layout.rank()
    }

    /// Elements.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert_eq!(x.len(), 4);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    #[must_use]
    pub fn len(&self) -> usize {
        self.layout.len()
    }

    /// Returns whether the tensor has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.layout.is_empty()
    }

    /// The device whose memory it is.
    ///
    /// ```
    /// # use warpfold::{Device, Profile, Tensor};
    /// # let device = Device::virtual_gpu(Profile::H200);
    /// let x = Tensor::new(&[[1_f32, 2.0], [3.0, 4.0]], &device)?;
    /// assert!(x.device().is_virtual());
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    #[must_use]
    pub fn device(&self) -> &Device {
        self.memory.device()
    }

    /// The queue that its operators run on.
    #[must_use]
    pub const fn queue(&self) -> &Queue {
        &self.queue
    }

    /// The same tensor; its operators, and those of what they give, run on another queue of the
    /// same device.
    #[must_use]
    pub fn on(&self, queue: &Queue) -> Self {
        Self { queue: queue.clone(), ..self.clone() }
    }

    /// The device address of the first element.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.memory.address() + self.first as u64 * self.dtype.bytes()
    }

    /// The memory of the elements of a contiguous tensor, for kernels and copies of the caller's.
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] unless the tensor is contiguous.
    pub fn device_bytes(&self) -> Result<View<'_, u8>, Error> {
        let (start, len) = self.span_of_bytes()?;
        Ok(self.memory.view(start..start + len)?)
    }

    /// The same to be written. No clone and no view of the tensor may be left.
    ///
    /// # Errors
    /// As [`Tensor::device_bytes`], and [`ErrorKind::SharedMemory`].
    pub fn device_bytes_mut(&mut self) -> Result<ViewMut<'_, u8>, Error> {
        let (_, len) = self.span_of_bytes()?;
        Ok(self.view_mut()?.slice(..len)?)
    }

    /// The elements of a contiguous tensor where they are, for kernels of the caller's.
    ///
    /// ```
    /// use warpfold::lang::{Global, kernel, thread_idx};
    /// use warpfold::{Device, Profile, Tensor, device::LaunchConfig};
    ///
    /// let device = Device::virtual_gpu(Profile::H200);
    /// let negate = kernel("negate", |x: Global<f32>, y: Global<f32>| {
    ///     let i = thread_idx().x;
    ///     y.at(i).set(-x.at(i).get());
    /// });
    /// let x = Tensor::new(&[1_f32, 2.], &device)?;
    /// let mut y = x.zeros_like()?;
    /// device.launch(&negate, LaunchConfig::new(1, 2), (x.device_elements::<f32>()?, y.device_elements_mut::<f32>()?))?;
    /// assert_eq!(y.to_vec::<f32>()?, [-1.0, -2.0]);
    /// # Ok::<(), warpfold::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Operand`] unless the tensor is contiguous and `T` is the elements' type.
    pub fn device_elements<T: TensorElement>(&self) -> Result<View<'_, T>, Error> {
        self.expect_elements(T::DTYPE)?;
        self.device_bytes()?.elements().ok_or_else(|| self.unaligned())
    }

    /// The same to be written. No clone and no view of the tensor may be left.
    ///
    /// # Errors
    /// As [`Tensor::device_elements`], and [`ErrorKind::SharedMemory`].
    pub fn device_elements_mut<T: TensorElement>(&mut self) -> Result<ViewMut<'_, T>, Error> {
        self.expect_elements(T::DTYPE)?;
        let unaligned = self.unaligned();
        self.device_bytes_mut()?.elements().ok_or(unaligned)
    }

    fn expect_elements(&self, expected: Dtype) -> Result<(), Error> {
        if self.dtype == expected {
            return Ok(());
        }
        let reason = format!("the tensor's elements are {}, {expected} is asked for: cast first", self.dtype);
        Err(ErrorKind::Operand { operator: "device_elements", reason }.into())
    }

    fn unaligned(&self) -> Error {
        let reason = format!("address {:#x} is not aligned to elements of type {}", self.address(), self.dtype);
        ErrorKind::Operand { operator: "device_elements", reason }.into()
    }

    /// Returns the address and the byte count of a contiguous tensor.
    fn span_of_bytes(&self) -> Result<(usize, usize), Error> {
        if !self.layout.is_contiguous() {
            let reason = format!("the strides {:?} of {:?} are not contiguous", self.layout.strides(), self.shape());
            return Err(ErrorKind::Operand { operator: "device_bytes", reason }.into());
        }
        let bytes = self.dtype.bytes() as usize;
        Ok((self.first * bytes, self.len() * bytes))
    }

    /// The memory from the first element on. With negative strides, elements are before it.
    pub(crate) fn memory_view(&self) -> Result<View<'_, u8>, Error> {
        Ok(self.memory.view(self.first * self.dtype.bytes() as usize..)?)
    }

    /// The same to be written, if nobody else sees it.
    pub(crate) fn view_mut(&mut self) -> Result<ViewMut<'_, u8>, Error> {
        let start = self.first * self.dtype.bytes() as usize;
        let memory = Arc::get_mut(&mut self.memory).ok_or(ErrorKind::SharedMemory)?;
        Ok(memory.view_mut(start..)?)
    }

    /// Describes the tensor to the planner.
    pub(crate) fn spec(&self) -> TensorSpec {
        TensorSpec::new(self.dtype, self.layout.clone(), self.address())
    }

    /// The memory from the element on that is first there: with negative strides another one than
    /// the tensor's first.
    pub(crate) fn view_of_all(&self) -> Result<View<'_, u8>, Error> {
        Ok(self.memory.view(self.extent().0 * self.dtype.bytes() as usize..)?)
    }

    /// # Errors
    /// [`ErrorKind::DtypeMismatch`].
    pub(crate) fn expect_dtype(&self, operand: &str, expected: Dtype) -> Result<(), Error> {
        let (operand, found) = (operand.to_owned(), self.dtype);
        if found == expected { Ok(()) } else { Err(ErrorKind::DtypeMismatch { operand, found, expected }.into()) }
    }
}

/// The first input of an operator.
pub(crate) enum First<'a> {
    /// The operator reads it.
    Read(&'a Tensor),
    /// The first result overwrites it.
    Overwritten(&'a mut Tensor),
}

impl First<'_> {
    pub(crate) fn tensor(&self) -> &Tensor {
        match self {
            Self::Read(tensor) => tensor,
            Self::Overwritten(tensor) => tensor,
        }
    }

    /// The element types of results that have memory of their own.
    ///
    /// # Errors
    /// [`ErrorKind::DtypeMismatch`] if the first result does not have the type of the tensor that
    /// it overwrites.
    pub(crate) fn allocated<'a>(&self, results: &'a [Dtype]) -> Result<&'a [Dtype], Error> {
        match (self, results) {
            (Self::Overwritten(tensor), [first, others @ ..]) => {
                tensor.expect_dtype("the result in place", *first).map(|()| others)
            }
            _ => Ok(results),
        }
    }

    /// Enqueues what a family computes for a problem of this input and others.
    pub(crate) fn run<F: Family>(
        self,
        family: &F,
        problem: F::Problem,
        others: &[&Tensor],
        outputs: &mut [Allocated],
    ) -> Result<(), Error> {
        let queue = self.tensor().queue.clone();
        let (mut inputs, mut written) = (vec![None], Vec::with_capacity(1 + outputs.len()));
        match self {
            Self::Read(tensor) => inputs[0] = Some(tensor.memory_view()?),
            Self::Overwritten(tensor) => written.push(tensor.view_mut()?),
        }
        for other in others {
            inputs.push(Some(other.memory_view()?));
        }
        written.extend(outputs.iter_mut().map(|output| output.buffer.as_view_mut()));
        queue.run(family, problem, &inputs, &mut written)
    }
}

/// Refuses inputs of another number, or else of other types, than those that something takes.
pub(crate) fn expect_inputs<'a>(
    what: &str,
    inputs: impl ExactSizeIterator<Item = &'a Tensor>,
    expected: &[Dtype],
) -> Result<(), Error> {
    let (found, most) = (inputs.len(), expected.len());
    if found != most {
        return Err(ErrorKind::NumInputs { op: what.to_owned(), least: most, most, found }.into());
    }
    let mut inputs = inputs.zip(expected).enumerate();
    inputs.try_for_each(|(i, (input, dtype))| input.expect_dtype(&format!("input {i} of {what}"), *dtype))
}

/// A tensor that is about to be written, and nobody else has.
pub(crate) struct Allocated {
    queue: Queue,
    pub(crate) buffer: Memory,
    pub(crate) layout: Layout,
    dtype: Dtype,
}

impl Allocated {
    /// Memory for a tensor, of any content.
    pub(crate) fn new(queue: &Queue, dtype: Dtype, shape: &[usize]) -> Result<Self, Error> {
        let layout = Layout::contiguous(shape)?;
        let bytes = shape.iter().try_fold(dtype.bytes() as usize, |bytes, size| bytes.checked_mul(*size));
        let bytes = if layout.is_empty() { Some(0) } else { bytes };
        let too_large = ErrorKind::TooLarge { what: "a tensor", size: u64::MAX, limit: isize::MAX as u64 };
        let buffer = queue.allocate(bytes.ok_or(too_large)?)?;
        Ok(Self { queue: queue.clone(), buffer, layout, dtype })
    }

    /// Describes the tensor to the planner.
    pub(crate) fn spec(&self) -> TensorSpec {
        TensorSpec::new(self.dtype, self.layout.clone(), self.buffer.address())
    }

    /// The tensor, once everything that writes it is enqueued.
    pub(crate) fn finish(self) -> Tensor {
        let Self { queue, buffer, layout, dtype } = self;
        Tensor { queue, memory: Arc::new(buffer), first: 0, layout, dtype }
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (dtype, shape, strides) = (self.dtype, self.shape(), self.layout.strides());
        write!(f, "Tensor<{dtype}>({shape:?}, strides {strides:?}, on {})", self.device())
    }
}
