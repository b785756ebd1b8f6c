//! Pinned host memory, for copies that overlap with the host and with kernels.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Range, RangeBounds};
use std::sync::atomic::AtomicU32;

use crate::api::buffer::resolve;
use crate::api::device::Device;
use crate::api::element::Element;
use crate::backend::BackendHostMemory;
use crate::{Error, ErrorKind};

/// `len` elements of pinned (page-locked) host memory; plain memory on the virtual GPU.
///
/// [`Stream::copy_from_host_async`](crate::Stream::copy_from_host_async) and
/// [`Stream::copy_to_host_async`](crate::Stream::copy_to_host_async) return before the copy is
/// done, so that a copy on one stream overlaps with kernels on another and with the host. The order
/// is kept by the buffer: looking at the elements waits for the copies, a copy waits for those on
/// other streams that use the same elements, and dropping the buffer waits for all of them.
///
/// Double buffering: the host fills one part while the other is copied, and the compute stream
/// waits for the copy of the part that it needs:
/// ```
/// use warpfold_device::{Device, Error};
///
/// let device = Device::best();
/// let (copies, compute) = (device.new_stream()?, device.new_stream()?);
/// let mut staging = device.host_buffer::<f32>(2 * 1024)?;
/// let mut inputs = [device.alloc_zeroed::<f32>(1024)?, device.alloc_zeroed::<f32>(1024)?];
/// let mut sums = device.alloc_zeroed::<f32>(4 * 1024)?;
/// for step in 0..4 {
///     let half = step % 2 * 1024..(step % 2 + 1) * 1024;
///     staging.range_mut(half.clone())?.fill(step as f32); // waits for the copy of two steps ago
///     copies.copy_from_host_async(&mut inputs[step % 2], staging.view(half)?)?;
///     // A kernel would go here; the buffer makes `compute` wait for the copy.
///     compute.copy(sums.view_mut(step * 1024..(step + 1) * 1024)?, &inputs[step % 2])?;
/// }
/// assert_eq!(sums.download()?[3 * 1024..], [3.0; 1024]);
/// # Ok::<(), Error>(())
/// ```
pub struct HostBuffer<T: Element> {
    memory: Box<dyn BackendHostMemory>,
    device: Device,
    len: usize,
    element: PhantomData<T>,
}

impl<T: Element> HostBuffer<T> {
    pub(crate) fn new(device: &Device, len: usize) -> Result<Self, Error> {
        let element_bytes = size_of::<T>();
        let bytes = len.checked_mul(element_bytes).filter(|&bytes| isize::try_from(bytes).is_ok());
        let bytes = bytes.ok_or(ErrorKind::TooLarge { len, element_bytes })?;
        device.catch_up()?;
        let memory = device.backend().host_memory(bytes)?;
        Ok(Self { memory, device: device.clone(), len, element: PhantomData })
    }

    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if the buffer has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The device that copies it asynchronously.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The elements, after waiting for copies from and to them.
    ///
    /// # Errors
    /// [`ErrorKind::LaunchFailed`] if a kernel before such a copy failed.
    pub fn as_slice(&self) -> Result<&[T], Error> {
        Ok(bytemuck::cast_slice(self.memory.bytes(0..self.num_bytes())?))
    }

    /// The elements, mutable, after waiting for copies from and to them.
    ///
    /// # Errors
    /// [`ErrorKind::LaunchFailed`] if a kernel before such a copy failed.
    pub fn as_mut_slice(&mut self) -> Result<&mut [T], Error> {
        let bytes = 0..self.num_bytes();
        Ok(bytemuck::cast_slice_mut(self.memory.bytes_mut(bytes)?))
    }

    /// A range of the elements, after waiting for copies from and to it; other copies may still
    /// run.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`]; [`ErrorKind::LaunchFailed`] if a kernel before such a copy
    /// failed.
    pub fn range(&self, range: impl RangeBounds<usize>) -> Result<&[T], Error> {
        let bytes = bytes_of::<T>(resolve(range, self.len)?);
        Ok(bytemuck::cast_slice(self.memory.bytes(bytes)?))
    }

    /// Mutable counterpart of [`HostBuffer::range`].
    ///
    /// # Errors
    /// As [`HostBuffer::range`].
    pub fn range_mut(&mut self, range: impl RangeBounds<usize>) -> Result<&mut [T], Error> {
        let bytes = bytes_of::<T>(resolve(range, self.len)?);
        Ok(bytemuck::cast_slice_mut(self.memory.bytes_mut(bytes)?))
    }

    /// A part, to be copied to the device.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`].
    pub fn view(&self, range: impl RangeBounds<usize>) -> Result<HostView<'_, T>, Error> {
        let range = resolve(range, self.len)?;
        Ok(HostView { buffer: self, range })
    }

    /// A part, to be copied to from the device.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfRange`].
    pub fn view_mut(&mut self, range: impl RangeBounds<usize>) -> Result<HostViewMut<'_, T>, Error> {
        let range = resolve(range, self.len)?;
        Ok(HostViewMut { buffer: self, range })
    }

    fn num_bytes(&self) -> usize {
        self.len * size_of::<T>()
    }

    /// A word that kernels may write while the host reads it, if they can access the memory.
    pub(crate) fn word(&self, index: usize) -> Option<&AtomicU32> {
        self.memory.word(index)
    }

    /// Device address of the memory, if kernels can access it.
    pub(crate) fn device_address(&self) -> Option<u64> {
        self.memory.device_address()
    }
}

fn bytes_of<T>(elements: Range<usize>) -> Range<usize> {
    elements.start * size_of::<T>()..elements.end * size_of::<T>()
}

impl<T: Element> fmt::Debug for HostBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostBuffer<{}>({} for {})", T::NAME, self.len, self.device)
    }
}

/// Part of a [`HostBuffer`], to be copied to the device.
#[derive(Debug)]
pub struct HostView<'a, T: Element> {
    buffer: &'a HostBuffer<T>,
    range: Range<usize>,
}

/// Part of a [`HostBuffer`], to be copied to from the device.
#[derive(Debug)]
pub struct HostViewMut<'a, T: Element> {
    buffer: &'a mut HostBuffer<T>,
    range: Range<usize>,
}

impl<T: Element> HostView<'_, T> {
    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Returns true if the range is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    pub(crate) fn device(&self) -> &Device {
        &self.buffer.device
    }

    /// The memory, and the range of its bytes.
    pub(crate) fn memory(&self) -> (&dyn BackendHostMemory, Range<usize>) {
        (&*self.buffer.memory, bytes_of::<T>(self.range.clone()))
    }
}

impl<T: Element> HostViewMut<'_, T> {
    /// Number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Returns true if the range is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    pub(crate) fn device(&self) -> &Device {
        &self.buffer.device
    }

    /// The memory, and the range of its bytes.
    pub(crate) fn memory(&mut self) -> (&mut dyn BackendHostMemory, Range<usize>) {
        (&mut *self.buffer.memory, bytes_of::<T>(self.range.clone()))
    }
}

impl<'a, T: Element> From<&'a HostBuffer<T>> for HostView<'a, T> {
    fn from(buffer: &'a HostBuffer<T>) -> Self {
        Self { buffer, range: 0..buffer.len }
    }
}

impl<'a, T: Element> From<&'a mut HostBuffer<T>> for HostViewMut<'a, T> {
    fn from(buffer: &'a mut HostBuffer<T>) -> Self {
        let range = 0..buffer.len;
        Self { buffer, range }
    }
}
