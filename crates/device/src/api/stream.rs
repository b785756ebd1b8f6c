//! Streams: ordered queues of work.

use std::fmt;
use std::sync::Arc;

use crate::api::activity::ActivityKind;
use crate::api::arguments::Arguments;
use crate::api::buffer::{View, ViewMut};
use crate::api::device::Device;
use crate::api::element::Element;
use crate::api::event::Event;
use crate::api::graph::Held;
use crate::api::host_buffer::{HostBuffer, HostView, HostViewMut};
use crate::api::memory::{Access, Allocation};
use crate::api::module::{Function, Prepared};
use crate::backend::launch;
use crate::backend::{BackendStream, Begin, Clock, Entered, LaunchConfig, LaunchSite, Span};
use crate::{Error, ErrorKind};

/// A stream: copies and launches on one device, in order. Cheap to clone; clones are the same
/// stream.
///
/// On CUDA the calls here enqueue and return, save those that copy from or to host slices, which
/// return when the copy is done. On the virtual GPU each call runs to its end. Work of two streams
/// may overlap. Where it must not, the order comes from the buffers, which both use, or from an
/// [`Event`]: one stream [records](Stream::record) it, the other [waits](Stream::wait) for it.
#[derive(Clone)]
pub struct Stream {
    device: Device,
    imp: Arc<dyn BackendStream>,
}

impl Stream {
    pub(crate) fn new(device: Device, imp: Arc<dyn BackendStream>) -> Self {
        Self { device, imp }
    }

    pub(crate) fn imp(&self) -> &Arc<dyn BackendStream> {
        &self.imp
    }

    /// The device of the stream.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Waits for all work of the stream.
    ///
    /// # Errors
    /// [`ErrorKind::LaunchFailed`] if a kernel failed since the last synchronisation;
    /// [`ErrorKind::NotCapturable`] while the stream is being captured.
    pub fn synchronize(&self) -> Result<(), Error> {
        let entered = self.uncaptured("waiting for the stream")?;
        let result = self.device.activity().call("cuStreamSynchronize", || self.imp.synchronize());
        drop(entered);
        result
    }

    /// Records an event at the current end of the stream.
    ///
    /// # Errors
    /// [`ErrorKind::NotCapturable`] while the stream is being captured; what the driver reports.
    pub fn record(&self) -> Result<Event, Error> {
        let _entered = self.uncaptured("an event")?;
        let event = self.device.activity().call("cuEventRecord", || self.imp.record(Clock::On))?;
        Ok(Event::new(self.device.clone(), event))
    }

    /// Makes later work of this stream wait for `event`, which may be of any stream of this device.
    /// The host does not wait.
    ///
    /// # Errors
    /// [`ErrorKind::MixedDevices`]; [`ErrorKind::NotCapturable`] while the stream is being
    /// captured.
    pub fn wait(&self, event: &Event) -> Result<(), Error> {
        let _entered = self.uncaptured("waiting for an event")?;
        self.device.expect_same(event.device(), || "the event".to_owned())?;
        self.imp.wait(event.imp())
    }
}

/// Copies.
impl Stream {
    /// Copies host elements to the device; `from` may be reused on return.
    ///
    /// # Errors
    /// [`ErrorKind::LengthMismatch`], [`ErrorKind::MixedDevices`].
    pub fn copy_from_host<'a, T: Element>(&self, to: impl Into<ViewMut<'a, T>>, from: &[T]) -> Result<(), Error> {
        self.not_captured("a copy from the host")?;
        let to = to.into();
        same_len("copy from host", to.len(), from.len())?;
        self.expect_here(to.device(), "the destination")?;
        self.order(to.memory(), Access::Write)?;
        self.run(Some("a copy from the host"), ActivityKind::HostToDevice, to.num_bytes(), |clock| {
            self.imp.upload(to.address(), bytemuck::cast_slice(from), clock)
        })
    }

    /// Copies to host elements; the copy is complete on return.
    ///
    /// # Errors
    /// [`ErrorKind::LengthMismatch`], [`ErrorKind::MixedDevices`]; [`ErrorKind::LaunchFailed`] if a
    /// kernel before it failed.
    pub fn copy_to_host<'a, T: Element>(&self, from: impl Into<View<'a, T>>, to: &mut [T]) -> Result<(), Error> {
        self.not_captured("a copy to the host")?;
        let from = from.into();
        same_len("copy to host", to.len(), from.len())?;
        self.expect_here(from.device(), "the source")?;
        self.order(from.memory(), Access::Read)?;
        self.run(Some("a copy to the host"), ActivityKind::DeviceToHost, from.num_bytes(), |clock| {
            self.imp.download(from.address(), bytemuck::cast_slice_mut(to), clock)
        })
    }

    /// Starts copying pinned host elements, all of a [`HostBuffer`] or a part, to the device. Later
    /// writes to them wait for the copy.
    ///
    /// # Errors
    /// [`ErrorKind::LengthMismatch`], [`ErrorKind::MixedDevices`].
    pub fn copy_from_host_async<'a, 'b, T: Element>(
        &self,
        to: impl Into<ViewMut<'a, T>>,
        from: impl Into<HostView<'b, T>>,
    ) -> Result<(), Error> {
        self.not_captured("a copy from the host")?;
        let (to, from) = (to.into(), from.into());
        same_len("copy from host", to.len(), from.len())?;
        self.expect_here(to.device(), "the destination")?;
        self.expect_here(from.device(), "the host buffer")?;
        self.order(to.memory(), Access::Write)?;
        let (memory, bytes) = from.memory();
        self.run(Some("a copy from the host"), ActivityKind::HostToDevice, to.num_bytes(), |clock| {
            self.imp.upload_async(to.address(), memory, bytes, clock)
        })
    }

    /// Starts copying to pinned host elements, all of a [`HostBuffer`] or a part. Later reads of
    /// them wait for the copy.
    ///
    /// # Errors
    /// [`ErrorKind::LengthMismatch`], [`ErrorKind::MixedDevices`].
    pub fn copy_to_host_async<'a, 'b, T: Element>(
        &self,
        from: impl Into<View<'a, T>>,
        to: impl Into<HostViewMut<'b, T>>,
    ) -> Result<(), Error> {
        self.not_captured("a copy to the host")?;
        let (from, mut to) = (from.into(), to.into());
        same_len("copy to host", to.len(), from.len())?;
        self.expect_here(from.device(), "the source")?;
        self.expect_here(to.device(), "the host buffer")?;
        self.order(from.memory(), Access::Read)?;
        let (memory, bytes) = to.memory();
        self.run(Some("a copy to the host"), ActivityKind::DeviceToHost, from.num_bytes(), |clock| {
            self.imp.download_async(from.address(), memory, bytes, clock)
        })
    }

    /// Copies a whole buffer with [`Stream::copy_from_host_async`].
    ///
    /// # Errors
    /// As [`Stream::copy_from_host_async`].
    #[deprecated(note = "`copy_from_host_async` takes parts of a buffer, too")]
    pub fn send<'a, T: Element>(&self, to: impl Into<ViewMut<'a, T>>, from: &HostBuffer<T>) -> Result<(), Error> {
        self.copy_from_host_async(to, from)
    }

    /// Copies to a whole buffer with [`Stream::copy_to_host_async`].
    ///
    /// # Errors
    /// As [`Stream::copy_to_host_async`].
    #[deprecated(note = "`copy_to_host_async` takes parts of a buffer, too")]
    pub fn receive<'a, T: Element>(&self, from: impl Into<View<'a, T>>, to: &mut HostBuffer<T>) -> Result<(), Error> {
        self.copy_to_host_async(from, to)
    }

    /// Copies between buffers of this device.
    ///
    /// # Errors
    /// [`ErrorKind::LengthMismatch`], [`ErrorKind::MixedDevices`].
    pub fn copy<'a, 'b, T: Element>(
        &self,
        to: impl Into<ViewMut<'a, T>>,
        from: impl Into<View<'b, T>>,
    ) -> Result<(), Error> {
        let (to, from) = (to.into(), from.into());
        same_len("copy", to.len(), from.len())?;
        self.expect_here(to.device(), "the destination")?;
        self.expect_here(from.device(), "the source")?;
        self.order(from.memory(), Access::Read)?;
        self.order(to.memory(), Access::Write)?;
        self.run(None, ActivityKind::DeviceToDevice, to.num_bytes(), |clock| {
            self.imp.copy(to.address(), from.address(), to.num_bytes() as u64, clock)
        })
    }

    /// Sets every byte.
    ///
    /// # Errors
    /// [`ErrorKind::MixedDevices`].
    pub fn fill_bytes<'a, T: Element>(&self, to: impl Into<ViewMut<'a, T>>, byte: u8) -> Result<(), Error> {
        let to = to.into();
        self.expect_here(to.device(), "the destination")?;
        self.order(to.memory(), Access::Write)?;
        self.run(None, ActivityKind::Fill, to.num_bytes(), |clock| {
            self.imp.fill(to.address(), byte, to.num_bytes() as u64, clock)
        })
    }
}

/// Launches.
impl Stream {
    /// Launches a kernel of loaded PTX with arguments whose layout alone is checked.
    ///
    /// # Errors
    /// [`ErrorKind::TooManyThreads`], [`ErrorKind::TooMuchShared`], [`ErrorKind::InvalidLaunch`],
    /// [`ErrorKind::MixedDevices`]; [`ErrorKind::LaunchFailed`] where the failure shows at once.
    pub fn launch_raw(
        &self,
        function: &Function,
        config: LaunchConfig,
        arguments: &Arguments<'_>,
    ) -> Result<(), Error> {
        self.device.expect_same(function.device(), || format!("kernel {}", function.info().name))?;
        self.run_kernel(function.prepared(), config, arguments)
    }

    /// Launches a kernel of this device.
    pub(crate) fn run_kernel(
        &self,
        kernel: &Prepared,
        config: LaunchConfig,
        arguments: &Arguments<'_>,
    ) -> Result<(), Error> {
        let Prepared { imp, info, dynamic_shared } = kernel;
        let config = LaunchConfig { dynamic_shared: config.dynamic_shared.max(*dynamic_shared), ..config };
        launch::check(&config, info, self.device.limits())?;
        let parameters = arguments.parameters();
        parameters
            .check(info)
            .map_err(|reason| ErrorKind::InvalidLaunch { site: LaunchSite::new(&info.name, &config), reason })?;
        for (index, (memory, access)) in arguments.memory().iter().enumerate() {
            let what = || format!("buffer {} (pointer {index} of kernel {})", memory.name(), info.name);
            self.device.expect_same(memory.device(), what)?;
            self.order(memory, *access)?;
        }
        let entered = self.imp.gate().enter()?;
        Held::keep_function(entered.capture(), imp);
        let (kind, activity) = (ActivityKind::Kernel(info.name.clone()), self.device.activity());
        let (begin, clock) = (Begin::of(info, &config), self.clock(&entered));
        let span = activity.call(kind.call(), || self.imp.launch(&**imp, &config, begin, parameters, clock))?;
        drop(entered);
        activity.add(kind, 0, span);
        Ok(())
    }
}

impl Stream {
    fn expect_here(&self, found: &Device, what: &str) -> Result<(), Error> {
        self.device.expect_same(found, || what.to_owned())
    }

    /// Orders a use of memory after those that it must not overtake, and keeps the memory alive for
    /// the graph that captures the use.
    pub(crate) fn order(&self, memory: &Arc<Allocation>, access: Access) -> Result<(), Error> {
        let capture = memory.order_use(&self.imp, access)?;
        Held::keep(capture, memory, access);
        Ok(())
    }

    /// Enters the stream for an operation that a graph cannot hold.
    fn uncaptured(&self, what: &'static str) -> Result<Entered<'_>, Error> {
        let entered = self.imp.gate().enter()?;
        entered.not_captured(what)?;
        Ok(entered)
    }

    /// Returns the clock for an operation: captured work has no time yet.
    fn clock(&self, entered: &Entered<'_>) -> Clock {
        if entered.capture().is_some() { Clock::Off } else { self.device.activity().clock() }
    }

    /// Runs a copy or a fill of `bytes`, unless there are none, and adds it to the activities.
    /// `uncapturable` names an operation that a graph cannot hold.
    pub(crate) fn run(
        &self,
        uncapturable: Option<&'static str>,
        kind: ActivityKind,
        bytes: usize,
        work: impl FnOnce(Clock) -> Result<Option<Span>, Error>,
    ) -> Result<(), Error> {
        if bytes == 0 {
            return Ok(());
        }
        let entered = self.imp.gate().enter()?;
        uncapturable.map_or(Ok(()), |what| entered.not_captured(what))?;
        let clock = self.clock(&entered);
        let span = self.device.activity().call(kind.call(), || work(clock))?;
        drop(entered);
        self.device.activity().add(kind, bytes as u64, span);
        Ok(())
    }
}

fn same_len(what: &'static str, expected: usize, found: usize) -> Result<(), Error> {
    if expected == found { Ok(()) } else { Err(ErrorKind::LengthMismatch { what, expected, found }.into()) }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({:?} on {})", self.imp, self.device)
    }
}
