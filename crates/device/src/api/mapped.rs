//! Mapped (zero-copy) host memory: kernels reach it over the bus, without a copy.

use std::fmt;
use std::sync::atomic::AtomicU32;

use crate::Error;
use crate::api::buffer::Buffer;
use crate::api::device::Device;
use crate::api::element::Element;
use crate::api::host_buffer::HostBuffer;
use crate::api::memory::Allocation;

/// `len` elements of host memory that kernels read and write where they lie. Each access crosses
/// the bus, so it pays for what is touched once. On the virtual GPU it is memory of the device.
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
    /// A copy of `data` that kernels of a device reach.
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

    /// To be given to kernels that read it.
    #[must_use]
    pub fn as_buffer(&self) -> &Buffer<T> {
        &self.buffer
    }

    /// To be given to kernels that write it.
    #[must_use]
    pub fn as_buffer_mut(&mut self) -> &mut Buffer<T> {
        &mut self.buffer
    }

    /// The elements, once everything on the device is done.
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
    /// A word as the host and kernels that run see it at this moment: kernels read and write it by
    /// atomic accesses of system scope. `None` on the virtual GPU, whose kernels do not run beside
    /// the host.
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
