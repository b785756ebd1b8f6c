//! Mapped (zero-copy) host memory: kernels access it over the bus, without a copy.

use std::fmt;
use std::sync::atomic::AtomicU32;

use crate::Error;
use crate::api::buffer::Buffer;
use crate::api::device::Device;
use crate::api::element::Element;
use crate::api::host_buffer::HostBuffer;
use crate::api::memory::Allocation;

/// `len` elements of host memory that kernels read and write in place. Each access crosses the bus,
/// so it pays off for data accessed once. On the virtual GPU it is device memory.
///
/// ```
/// use warpfold_device::{Device, LaunchConfig, MappedBuffer};
/// use warpfold_lang::{Global, kernel, thread_idx};
///
/// let double = kernel("double", |x: Global<f32>| x.at(thread_idx().x).update(|x| x * 2.0));
/// let device = Device::best();
/// let mut numbers = MappedBuffer::new(&device, &[1.0_f32; 32])?;
/// device.launch(&double, LaunchConfig::new(1, 32), (numbers.as_buffer_mut(),))?;
/// assert_eq!(numbers.read()?, [2.0; 32]);
/// # Ok::<(), warpfold_device::Error>(())
/// ```
pub struct MappedBuffer<T: Element> {
    /// The buffer that kernels access; borrows from `host`, if there is one.
    buffer: Buffer<T>,
    host: Option<HostBuffer<T>>,
}

impl<T: Element> MappedBuffer<T> {
    /// Copies `data` to memory that kernels of a device can access.
    ///
    /// # Errors
    /// What the driver says.
    pub fn new(device: &Device, data: &[T]) -> Result<Self, Error> {
        let mut host = HostBuffer::new(device, data.len())?;
        let Some(address) = host.device_address() else {
            return Ok(Self { buffer: device.upload_named("mapped host memory", data)?, host: None });
        };
        host.as_mut_slice()?.copy_from_slice(data);
        let stream = device.backend().default_stream();
        let memory = Allocation::borrowed(device, address, "mapped host memory", stream);
        Ok(Self { buffer: Buffer::new(memory, data.len()), host: Some(host) })
    }

    /// The buffer, for kernels that read it.
    #[must_use]
    pub fn as_buffer(&self) -> &Buffer<T> {
        &self.buffer
    }

    /// The buffer, for kernels that write it.
    #[must_use]
    pub fn as_buffer_mut(&mut self) -> &mut Buffer<T> {
        &mut self.buffer
    }

    /// The elements, after waiting for the device.
    ///
    /// # Errors
    /// [`ErrorKind::LaunchFailed`](crate::ErrorKind::LaunchFailed) if a kernel before failed.
    pub fn read(&self) -> Result<Vec<T>, Error> {
        self.buffer.device().synchronize()?;
        match &self.host {
            Some(host) => Ok(host.as_slice()?.to_vec()),
            None => self.buffer.download(),
        }
    }
}

impl MappedBuffer<u32> {
    /// A word that the host and running kernels share: kernels use atomic accesses of system scope.
    /// `None` on the virtual GPU, whose kernels do not run concurrently with the host.
    ///
    /// # Panics
    /// If there is no such word.
    #[must_use]
    pub fn word(&self, index: usize) -> Option<&AtomicU32> {
        assert!(index < self.buffer.len(), "word {index} of {}", self.buffer.len());
        self.host.as_ref().and_then(|host| host.word(index))
    }
}

impl<T: Element> Drop for MappedBuffer<T> {
    /// Kernels may still use the memory.
    fn drop(&mut self) {
        if self.host.is_some() {
            let _ = self.buffer.device().synchronize();
        }
    }
}

impl<T: Element> fmt::Debug for MappedBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MappedBuffer").field(&self.buffer).finish()
    }
}
