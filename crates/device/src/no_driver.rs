//! CUDA devices where no driver can be loaded: a page in a browser has none.
//!
//! It stands for `cuda` on WebAssembly, and needs the virtual GPU.

use crate::virtual_gpu::VirtualGpu;
use crate::{Error, ErrorKind};

/// Why there is neither driver nor NCCL.
const REASON: &str = "a page in a browser loads no libraries";

pub(crate) fn device_count() -> Result<usize, Error> {
    Err(ErrorKind::NoDriver { reason: REASON.to_owned() }.into())
}

/// A CUDA device, of which there is none.
pub(crate) enum CudaDevice {}

impl CudaDevice {
    pub(crate) fn open(_ordinal: usize) -> Result<VirtualGpu, Error> {
        Err(device_count().expect_err("there is no driver"))
    }
}

impl crate::Stream {
    /// Lets a library that takes CUDA streams enqueue work: there is none.
    ///
    /// # Errors
    /// None.
    pub fn with_raw_stream<R>(
        &self,
        _: &[&crate::View<'_, u8>],
        _: &[&crate::ViewMut<'_, u8>],
        _: impl FnOnce(*mut std::ffi::c_void) -> R,
    ) -> Result<Option<R>, Error> {
        Ok(None)
    }
}

/// NCCL, of which there is none: values of its types cannot exist.
#[cfg(feature = "nccl")]
pub(crate) mod nccl {
    use std::path::PathBuf;

    use super::REASON;
    use crate::{Device, Element, Error, ErrorKind, Stream, View, ViewMut};

    /// The NCCL library.
    #[derive(Debug, Clone, Copy)]
    pub enum Nccl {}

    /// Unique id of a communicator.
    pub type NcclId = [u8; 128];

    /// Says by the time that a call has taken so far whether it is waited for any longer.
    pub type NcclPatience = Box<dyn Fn(std::time::Duration) -> bool + Send>;

    /// A rank's end of an NCCL communicator.
    #[derive(Debug)]
    pub enum NcclCommunicator {}

    #[allow(clippy::missing_errors_doc, reason = "no value exists that any of these could be called on")]
    impl Nccl {
        /// Fails: a page in a browser loads no libraries.
        ///
        /// # Errors
        /// [`ErrorKind::NoNccl`].
        pub fn load(_places: &[PathBuf]) -> Result<Self, Error> {
            Err(ErrorKind::NoNccl { places: vec![REASON.to_owned()] }.into())
        }

        /// The library's version.
        pub fn version(&self) -> Result<String, Error> {
            match *self {}
        }

        /// Creates a unique id.
        pub fn new_id(&self) -> Result<NcclId, Error> {
            match *self {}
        }

        /// Joins a communicator.
        pub fn join(
            &self,
            _: &Device,
            _: &NcclId,
            _rank: usize,
            _size: usize,
            _: Option<NcclPatience>,
        ) -> Result<NcclCommunicator, Error> {
            match *self {}
        }
    }

    #[allow(clippy::missing_errors_doc, reason = "no value exists that any of these could be called on")]
    impl NcclCommunicator {
        /// Concatenates the inputs of all ranks.
        pub fn all_gather(&self, _: &Stream, _: &View<'_, u8>, _: &ViewMut<'_, u8>) -> Result<(), Error> {
            match *self {}
        }

        /// All-reduce sum in NCCL's own order.
        pub fn all_reduce_sum<T: Element>(&self, _: &Stream, _: &View<'_, T>, _: ViewMut<'_, T>) -> Result<(), Error> {
            match *self {}
        }

        /// Copies the root's data to every rank.
        pub fn broadcast(&self, _: &Stream, _root: usize, _: &ViewMut<'_, u8>) -> Result<(), Error> {
            match *self {}
        }

        /// Sends data to a rank.
        pub fn send(&self, _: &Stream, _to: usize, _: &View<'_, u8>) -> Result<(), Error> {
            match *self {}
        }

        /// Receives data from a rank.
        pub fn receive(&self, _: &Stream, _from: usize, _: &ViewMut<'_, u8>) -> Result<(), Error> {
            match *self {}
        }

        /// Sends a part to each rank, and concatenates the parts received.
        pub fn exchange(&self, _: &Stream, _: &View<'_, u8>, _: &ViewMut<'_, u8>) -> Result<(), Error> {
            match *self {}
        }

        /// Checks for asynchronous errors.
        pub fn check(&self) -> Result<(), Error> {
            match *self {}
        }
    }
}
