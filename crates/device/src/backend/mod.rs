//! Interface between the public types and the two kinds of device.
//!
//! The public types in `api` hold trait objects of the traits here, and `cuda` and `virtual_gpu`
//! implement them. Nothing here, or in them, knows the public types; only `cuda::interop`, which
//! extends those, does.
//!
//! Start with [`Backend`] and [`BackendStream`]. The plain data that both sides read:
//! [`properties`] and [`limits`] of a device, [`profile`] (the GPUs that the virtual one stands in
//! for), [`launch`] (the configuration of a launch and the rules for it), [`function`] and
//! [`parameters`] (a kernel's parameters, and the bytes that go there). [`gate`] says who may use a
//! stream while a graph is captured, [`pace`] when a rank of a group of devices may make a call
//! that waits for its device.
//!
//! A handle (stream, function, event) that reaches a backend of the other kind is answered with
//! [`mixed`], so that the compiler needs no proof that this never happens.

mod function;
mod gate;
pub(crate) mod launch;
mod limits;
mod link;
mod pace;
mod parameters;
mod profile;
mod properties;

use std::any::Any;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

pub use function::{FunctionInfo, Param};
pub use launch::{Dim3, LaunchConfig, LaunchSite};
pub use limits::Limits;
pub use link::Link;
pub use profile::Profile;
pub use properties::{ComputeCapability, DeviceKind, DriverVersion};

pub(crate) use function::Places;
pub(crate) use gate::{CaptureId, Entered, Gate};
pub(crate) use launch::Begin;
pub(crate) use pace::Pace;
pub(crate) use parameters::Parameters;
pub(crate) use properties::Properties;

use crate::{Error, ErrorKind};

/// Timing of an operation on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clock {
    Off,
    On,
}

/// Start and end of a timed operation.
#[derive(Debug)]
pub(crate) struct Span {
    pub(crate) start: Arc<dyn BackendEvent>,
    pub(crate) end: Arc<dyn BackendEvent>,
}

/// A device. A timed operation returns its span, if the device has a clock.
pub(crate) trait Backend: Debug + Send + Sync + Any {
    fn properties(&self) -> &Properties;
    fn default_stream(&self) -> Arc<dyn BackendStream>;
    fn new_stream(&self) -> Result<Arc<dyn BackendStream>, Error>;
    /// Allocates `bytes` of device memory, at least 256-byte aligned; `name` appears in findings,
    /// if the device has them.
    fn allocate(&self, bytes: u64, name: &str) -> Result<u64, Error>;
    /// Frees memory of [`Backend::allocate`], after all work so far of `last`, which is not being
    /// captured.
    fn free(&self, address: u64, last: &dyn BackendStream);
    /// Free and total bytes of device memory.
    fn memory(&self) -> Result<(u64, u64), Error>;
    /// Host address of device memory, if the backend keeps it in host memory.
    fn host_address(&self, address: u64, bytes: u64) -> Option<*const u8>;
    /// Host memory for asynchronous copies: pinned on CUDA.
    fn host_memory(&self, bytes: usize) -> Result<Box<dyn BackendHostMemory>, Error>;
    /// Encodes a tensor map that keeps the rules.
    fn encode_tensor_map(&self, map: &warpfold_sim::TensorMap) -> Result<[u8; 128], Error>;
    /// Link by which kernels and copies here reach the memory of another device.
    fn link(&self, other: &dyn Backend) -> Result<Link, Error>;
    /// Enables peer access to another device, to which there is a link; idempotent.
    fn enable_peer(&self, other: &dyn Backend) -> Result<(), Error>;
    fn load(&self, ptx: &str) -> Result<Arc<dyn BackendModule>, Error>;
    /// Waits for every stream, except for captures, and returns a failure since the last call.
    fn synchronize(&self) -> Result<(), Error>;
}

/// A stream. Callers hold its [gate](BackendStream::gate) while they enqueue work.
pub(crate) trait BackendStream: Debug + Send + Sync + Any {
    /// Gate that controls the use of the stream while it is being captured.
    fn gate(&self) -> &Gate;
    /// Copies to the device; `from` may be reused on return.
    fn upload(&self, to: u64, from: &[u8], clock: Clock) -> Result<Option<Span>, Error>;
    /// Copies from the device; complete on return.
    fn download(&self, from: u64, to: &mut [u8], clock: Clock) -> Result<Option<Span>, Error>;
    /// Starts copying bytes of `from`, which the host must not access until the copy is done.
    fn upload_async(
        &self,
        to: u64,
        from: &dyn BackendHostMemory,
        range: Range<usize>,
        clock: Clock,
    ) -> Result<Option<Span>, Error>;
    /// Starts copying to bytes of `to`, which the host must not access until the copy is done.
    fn download_async(
        &self,
        from: u64,
        to: &mut dyn BackendHostMemory,
        range: Range<usize>,
        clock: Clock,
    ) -> Result<Option<Span>, Error>;
    fn fill(&self, address: u64, byte: u8, bytes: u64, clock: Clock) -> Result<Option<Span>, Error>;
    fn copy(&self, to: u64, from: u64, bytes: u64, clock: Clock) -> Result<Option<Span>, Error>;
    /// Copies from memory of another device, with or without peer access.
    fn copy_from_peer(
        &self,
        to: u64,
        from: (u64, &dyn Backend),
        bytes: u64,
        clock: Clock,
    ) -> Result<Option<Span>, Error>;
    /// Launches with parameters that have been [checked](Parameters::check) against the kernel's.
    fn launch(
        &self,
        function: &dyn BackendFunction,
        config: &LaunchConfig,
        begin: Begin,
        parameters: &Parameters,
        clock: Clock,
    ) -> Result<Option<Span>, Error>;
    /// Records an event at the end of the stream, with the time for [`Clock::On`].
    fn record(&self, clock: Clock) -> Result<Arc<dyn BackendEvent>, Error>;
    /// Makes later work wait for `event`.
    fn wait(&self, event: &dyn BackendEvent) -> Result<(), Error>;
    fn synchronize(&self) -> Result<(), Error>;
    /// Starts capturing launches, copies within the device and fills into a graph. Called through
    /// [`Gate::begin`].
    fn begin_capture(&self) -> Result<(), Error>;
    /// Ends the capture. Called through [`Gate::end`].
    fn end_capture(&self) -> Result<Box<dyn BackendGraph>, Error>;
}

/// Captured work.
pub(crate) trait BackendGraph: Debug + Send + Sync {
    /// Enqueues the graph on the stream that it was captured on.
    fn launch(&self) -> Result<(), Error>;
}

/// A point in a stream.
pub(crate) trait BackendEvent: Debug + Send + Sync + Any {
    fn synchronize(&self) -> Result<(), Error>;
    /// Returns true if the stream has reached the event.
    fn is_complete(&self) -> Result<bool, Error>;
    /// Device time from `earlier` to here, both recorded with [`Clock::On`]; `None` on a device
    /// without a clock.
    fn elapsed_since(&self, earlier: &dyn BackendEvent) -> Result<Option<Duration>, Error>;
}

/// Loaded PTX.
pub(crate) trait BackendModule: Debug + Send + Sync {
    fn function(self: Arc<Self>, name: &str) -> Result<Arc<dyn BackendFunction>, Error>;
    /// Address and size in bytes of a module variable.
    fn global(&self, name: &str) -> Option<(u64, u64)>;
}

/// A kernel of loaded PTX; keeps its module loaded.
pub(crate) trait BackendFunction: Debug + Send + Sync + Any {
    fn info(&self) -> &FunctionInfo;
    /// For a launch that was checked, with a cluster.
    fn max_active_clusters(&self, config: &LaunchConfig) -> Result<u32, Error>;
}

/// Host memory for asynchronous copies.
pub(crate) trait BackendHostMemory: Debug + Send + Sync + Any {
    /// A range of the bytes, after waiting for copies from and to it.
    fn bytes(&self, range: Range<usize>) -> Result<&[u8], Error>;
    fn bytes_mut(&mut self, range: Range<usize>) -> Result<&mut [u8], Error>;
    /// Device address of the memory, if kernels can access it.
    fn device_address(&self) -> Option<u64>;
    /// A word that kernels may write while the host reads it, if they can access the memory.
    fn word(&self, index: usize) -> Option<&AtomicU32>;
}

/// The error for a handle of another kind of device.
pub(crate) fn mixed(what: &str, expected: &Properties) -> Error {
    ErrorKind::MixedDevices {
        what: what.to_owned(),
        expected: expected.name.clone(),
        found: "a device of another kind".to_owned(),
    }
    .into()
}
