//! Host memory for fast copies that do not block.

use std::marker::PhantomData;

use crate::backend::BackendHostMemory;
use crate::device::Device;
use crate::element::Element;
use crate::{Error, ErrorKind};

/// `len` elements of host memory that a device copies fast: page-locked on CUDA, plain on the virtual GPU.
///
/// [`Stream::send`](crate::Stream::send) and [`Stream::receive`](crate::Stream::receive) return before the copy is
/// done; looking at the elements waits for it.
#[derive(Debug)]
pub struct HostBuffer<T: Element> {
    memory: Box<dyn BackendHostMemory>,
    device: Device,
    len: usize,
    element: PhantomData<T>,
}

impl<T: Element> HostBuffer<T> {
    pub(crate) fn new(device: &Device, len: usize) -> Result<Self, Error> {
        let element_bytes = size_of::<T>();
        let bytes = len.checked_mul(element_bytes).ok_or(ErrorKind::TooLarge { len, element_bytes })?;
        let memory = device.backend().host_memory(bytes)?;
        Ok(Self { memory, device: device.clone(), len, element: PhantomData })
    }

    /// Elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The device that copies it fast.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The elements, once copies from and to them are done.
    ///
    /// # Errors
    /// [`ErrorKind::LaunchFailed`] if a kernel before such a copy failed.
    pub fn as_slice(&self) -> Result<&[T], Error> {
        Ok(bytemuck::cast_slice(self.memory.bytes()?))
    }

    /// The elements, once copies from and to them are done.
    ///
    /// # Errors
    /// [`ErrorKind::LaunchFailed`] if a kernel before such a copy failed.
    pub fn as_mut_slice(&mut self) -> Result<&mut [T], Error> {
        Ok(bytemuck::cast_slice_mut(self.memory.bytes_mut()?))
    }

    pub(crate) fn memory(&self) -> &dyn BackendHostMemory {
        &*self.memory
    }

    pub(crate) fn memory_mut(&mut self) -> &mut dyn BackendHostMemory {
        &mut *self.memory
    }
}
