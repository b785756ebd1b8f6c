//! What a device must be able to do: the one interface behind which the driver and the virtual GPU stand.
//!
//! Handles (streams, modules, functions, events) are trait objects. One that reaches a backend of the other kind is
//! answered with [`mixed`], so that the compiler needs no proof that this never happens.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use crate::arguments::Arguments;
use crate::device::{DeviceKind, DriverVersion};
use crate::graph::Capture;
use crate::launch::{Begin, LaunchConfig};
use crate::limits::Limits;
use crate::module::FunctionInfo;
use crate::{Error, ErrorKind};

/// What is fixed about a device.
#[derive(Debug, Clone)]
pub(crate) struct Properties {
    pub(crate) kind: DeviceKind,
    pub(crate) name: String,
    pub(crate) arch: warpfold_sim::Arch,
    pub(crate) limits: Limits,
    pub(crate) driver: Option<DriverVersion>,
    /// The newest `.version` that the device takes.
    pub(crate) ptx_version: (u32, u32),
    /// Two devices with the same kind and identity share their memory.
    pub(crate) identity: u64,
}

/// Whether an operation is timed on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clock {
    Off,
    On,
}

/// The two ends of a timed operation.
#[derive(Debug)]
pub(crate) struct Span {
    pub(crate) start: Box<dyn BackendEvent>,
    pub(crate) end: Box<dyn BackendEvent>,
}

/// A device. Each operation that takes device time answers its span where it was asked to and the device has a clock.
pub(crate) trait Backend: Debug + Send + Sync + Any {
    fn properties(&self) -> &Properties;
    fn default_stream(&self) -> Arc<dyn BackendStream>;
    fn new_stream(&self) -> Result<Arc<dyn BackendStream>, Error>;
    /// `bytes` of device memory, at least 256-byte aligned; `name` shows in findings where a device has them.
    fn allocate(&self, bytes: u64, name: &str) -> Result<u64, Error>;
    /// Frees what [`Backend::allocate`] gave, once `last` is done with what it has been given so far.
    fn free(&self, address: u64, last: &dyn BackendStream);
    /// Bytes of device memory: free, in all.
    fn memory(&self) -> Result<(u64, u64), Error>;
    /// Host memory that the device copies fast: pinned where that means something.
    fn host_memory(&self, bytes: usize) -> Result<Box<dyn BackendHostMemory>, Error>;
    /// The bytes of a tensor map that keeps the rules.
    fn encode_tensor_map(&self, map: &warpfold_sim::TensorMap) -> Result<[u8; 128], Error>;
    fn load(&self, ptx: &str) -> Result<Arc<dyn BackendModule>, Error>;
    /// Waits for everything, and answers what failed since the last time.
    fn synchronize(&self) -> Result<(), Error>;
}

/// An order of work on a device.
pub(crate) trait BackendStream: Debug + Send + Sync + Any {
    /// Copies to the device; done with `from` when it returns.
    fn upload(&self, to: u64, from: &[u8], clock: Clock) -> Result<Option<Span>, Error>;
    /// Copies from the device; `to` holds the bytes when it returns.
    fn download(&self, from: u64, to: &mut [u8], clock: Clock) -> Result<Option<Span>, Error>;
    /// Copies to the device, all of `from`, which the host looks into only when that is done.
    fn send(&self, to: u64, from: &dyn BackendHostMemory, clock: Clock) -> Result<Option<Span>, Error>;
    /// Copies from the device, as much as `to` holds, which the host looks into only when that is done.
    fn receive(&self, from: u64, to: &mut dyn BackendHostMemory, clock: Clock) -> Result<Option<Span>, Error>;
    fn fill(&self, address: u64, byte: u8, bytes: u64, clock: Clock) -> Result<Option<Span>, Error>;
    fn copy(&self, to: u64, from: u64, bytes: u64, clock: Clock) -> Result<Option<Span>, Error>;
    /// Launches with arguments that were [compared](Arguments::check) with the kernel's parameters.
    fn launch(
        &self,
        function: &dyn BackendFunction,
        config: &LaunchConfig,
        begin: Begin,
        arguments: &Arguments<'_>,
        clock: Clock,
    ) -> Result<Option<Span>, Error>;
    fn record(&self) -> Result<Box<dyn BackendEvent>, Error>;
    /// What comes later here waits for `event`.
    fn wait(&self, event: &dyn BackendEvent) -> Result<(), Error>;
    /// What comes later here waits for what `other` has been given so far.
    fn follow(&self, other: &dyn BackendStream) -> Result<(), Error>;
    fn synchronize(&self) -> Result<(), Error>;
    /// What is kept for the graph that is being captured.
    fn capture(&self) -> &Capture;
    /// Launches, copies within the device and fills are noted from here on, and not done.
    fn begin_capture(&self) -> Result<(), Error>;
    fn end_capture(&self) -> Result<Box<dyn BackendGraph>, Error>;
}

/// Work that was captured.
pub(crate) trait BackendGraph: Debug {
    /// Enqueues all of it on the stream that it was captured on.
    fn launch(&self) -> Result<(), Error>;
}

/// A point in a stream.
pub(crate) trait BackendEvent: Debug + Send + Sync + Any {
    fn synchronize(&self) -> Result<(), Error>;
    /// Device time from `earlier` to here; `None` on a device without a clock.
    fn elapsed_since(&self, earlier: &dyn BackendEvent) -> Result<Option<Duration>, Error>;
}

/// Loaded PTX.
pub(crate) trait BackendModule: Debug + Send + Sync {
    fn function(self: Arc<Self>, name: &str) -> Result<Arc<dyn BackendFunction>, Error>;
    /// Address and bytes of a module variable.
    fn global(&self, name: &str) -> Option<(u64, u64)>;
}

/// An entry of loaded PTX; keeps its module alive.
pub(crate) trait BackendFunction: Debug + Send + Sync + Any {
    fn info(&self) -> &FunctionInfo;
    /// For a launch that was checked, with a cluster.
    fn max_active_clusters(&self, config: &LaunchConfig) -> Result<u32, Error>;
}

/// Host memory for copies that do not block.
pub(crate) trait BackendHostMemory: Debug + Send + Sync + Any {
    /// The bytes, once copies from and to them are done.
    fn bytes(&self) -> Result<&[u8], Error>;
    fn bytes_mut(&mut self) -> Result<&mut [u8], Error>;
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
