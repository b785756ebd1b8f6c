//! Contexts, streams and memory shared with other users of cudarc (candle, Burn, mistral.rs, your
//! own code).

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DevicePtr, DevicePtrMut, DeviceRepr};

use super::device::CudaDevice;
use super::stream::CudaStreamHandle;
use crate::api::buffer::{Buffer, View, ViewMut};
use crate::api::device::Device;
use crate::api::element::Element;
use crate::api::memory::{Access, Allocation};
use crate::api::stream::Stream;
use crate::backend::BackendStream;
use crate::{Error, ErrorKind};

/// Sharing a GPU with other users of cudarc.
impl Device {
    /// Wraps the GPU of an existing context. Memory of the context can be lent to it: see
    /// [`Stream::with_slice`].
    ///
    /// # Errors
    /// [`ErrorKind::UnsupportedArchitecture`], [`ErrorKind::DriverTooOld`].
    pub fn from_cudarc(context: Arc<CudaContext>) -> Result<Self, Error> {
        CudaDevice::wrap(context).map(Self::from_backend)
    }

    /// The context; `None` for the virtual GPU.
    #[must_use]
    pub fn cudarc_context(&self) -> Option<Arc<CudaContext>> {
        self.backend_as::<CudaDevice>().map(|device| device.context.cuda.clone())
    }
}

/// Sharing a stream with other users of cudarc.
impl Stream {
    /// Wraps an existing stream of the device's context. It can be captured if it was created
    /// non-blocking, as cudarc's are.
    ///
    /// # Errors
    /// [`ErrorKind::WrongKindOfDevice`] on the virtual GPU, [`ErrorKind::MixedDevices`] for a
    /// stream of another context.
    pub fn from_cudarc(device: &Device, stream: Arc<CudaStream>) -> Result<Self, Error> {
        let cuda = device.backend_as::<CudaDevice>().ok_or_else(|| not_cuda("wrapping a stream", device))?;
        if stream.context().cu_ctx() != cuda.context.cuda.cu_ctx() {
            let found = format!("another context of cuda:{}", stream.context().ordinal());
            let (what, expected) = ("the stream".to_owned(), device.to_string());
            return Err(ErrorKind::MixedDevices { what, expected, found }.into());
        }
        Ok(Self::new(device.clone(), CudaStreamHandle::new(cuda.context.clone(), stream)))
    }

    /// The stream; `None` on the virtual GPU.
    #[must_use]
    pub fn cudarc_stream(&self) -> Option<Arc<CudaStream>> {
        CudaStreamHandle::of(&**self.imp()).map(|handle| handle.stream.clone())
    }

    /// Lets a library that takes CUDA streams (cuBLAS, cuDNN) enqueue work: calls `work` with the
    /// raw `CUstream`, with the stream's context current on this thread, after uses of these
    /// operands on other streams. `None` on the virtual GPU. The library must use only this stream
    /// and the memory of the operands, as raw pointers.
    ///
    /// # Errors
    /// What the driver says.
    pub fn with_raw_stream<R>(
        &self,
        inputs: &[&View<'_, u8>],
        outputs: &[&ViewMut<'_, u8>],
        work: impl FnOnce(*mut std::ffi::c_void) -> R,
    ) -> Result<Option<R>, Error> {
        let Some(handle) = CudaStreamHandle::of(&**self.imp()) else { return Ok(None) };
        handle.context.bind()?;
        for input in inputs {
            input.memory().order(self.imp(), Access::Read)?;
        }
        for output in outputs {
            output.memory().order(self.imp(), Access::Write)?;
        }
        Ok(Some(work(handle.raw().cast())))
    }

    /// Lends a slice for reading: calls `work` with a view of it, after the writes that cudarc
    /// knows of; later uses by cudarc come after `work`. Not while the stream is being captured.
    ///
    /// # Errors
    /// Those of [`Stream::from_cudarc`], and those of `work`.
    pub fn with_slice<T: Element + DeviceRepr, R>(
        &self,
        slice: &CudaSlice<T>,
        work: impl FnOnce(View<'_, T>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let stream = self.lender(slice)?;
        let (address, until) = slice.device_ptr(&stream);
        let memory = Allocation::borrowed(self.device(), address, "slice", self.imp().clone());
        let result = work(View::of(memory.clone(), slice.len()));
        self.settle(&memory)?;
        drop(until);
        result
    }

    /// Mutable counterpart of [`Stream::with_slice`].
    ///
    /// # Errors
    /// Those of [`Stream::from_cudarc`], and those of `work`.
    pub fn with_slice_mut<T: Element + DeviceRepr, R>(
        &self,
        slice: &mut CudaSlice<T>,
        work: impl FnOnce(ViewMut<'_, T>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let stream = self.lender(slice)?;
        let len = slice.len();
        let (address, until) = slice.device_ptr_mut(&stream);
        let memory = Allocation::borrowed(self.device(), address, "slice", self.imp().clone());
        let result = work(ViewMut::of(memory.clone(), len));
        self.settle(&memory)?;
        drop(until);
        result
    }

    /// Returns this stream, if it can borrow a slice.
    fn lender<T>(&self, slice: &CudaSlice<T>) -> Result<Arc<CudaStream>, Error> {
        // cudarc orders the slice by its own events, which cannot go into a graph.
        self.not_captured("memory of cudarc")?;
        let stream = self.cudarc_stream().ok_or_else(|| not_cuda("lending a slice", self.device()))?;
        if slice.context().cu_ctx() != stream.context().cu_ctx() {
            let found = format!("another context of cuda:{}", slice.ordinal());
            let (what, expected) = ("the slice".to_owned(), self.device().to_string());
            return Err(ErrorKind::MixedDevices { what, expected, found }.into());
        }
        Ok(stream)
    }

    /// Makes this stream wait for all other streams on which `work` used the memory, so that the
    /// event that cudarc records next on this stream comes after all uses.
    fn settle(&self, memory: &Arc<Allocation>) -> Result<(), Error> {
        let settled = self.order(memory, Access::Write);
        if settled.is_err() {
            // Nothing orders the uses, so wait for them: the owner may free the memory next.
            let stream: &dyn BackendStream = &**self.imp();
            stream.synchronize()?;
            self.device().synchronize()?;
        }
        settled
    }
}

impl<T: Element> Buffer<T> {
    /// A buffer in memory that another owner frees and orders; dropping it frees nothing.
    ///
    /// ```no_run
    /// # use warpfold_device::{Buffer, Stream};
    /// # fn lend(stream: &Stream, address: u64) {
    /// // SAFETY: the owner of the 1,024 floats at `address` waits for the stream before it uses or frees them.
    /// let buffer = unsafe { Buffer::<f32>::from_raw(stream, address, 1024) };
    /// # }
    /// ```
    ///
    /// # Safety
    /// `address` is the start of at least `len` elements in memory of the context of `stream`,
    /// aligned for `T`, that stay allocated, and that nobody else uses without an order between the
    /// streams, until the buffer is dropped and the work given to it is done. What was done with
    /// them before is ordered by `stream`.
    #[must_use]
    pub unsafe fn from_raw(stream: &Stream, address: u64, len: usize) -> Self {
        Self::new(Allocation::borrowed(stream.device(), address, "borrowed", stream.imp().clone()), len)
    }
}

fn not_cuda(what: &'static str, device: &Device) -> Error {
    ErrorKind::WrongKindOfDevice { what, needed: "a CUDA GPU", device: device.to_string() }.into()
}
