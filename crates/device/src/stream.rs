//! Streams: work in order.

use std::fmt;
use std::sync::Arc;

use crate::activity::ActivityKind;
use crate::arguments::Arguments;
use crate::backend::{BackendStream, Clock, Span};
use crate::buffer::{View, ViewMut};
use crate::device::Device;
use crate::element::Element;
use crate::event::Event;
use crate::host_buffer::HostBuffer;
use crate::launch::{self, Begin, LaunchConfig, LaunchSite};
use crate::memory::Access;
use crate::module::{Function, Prepared};
use crate::{Error, ErrorKind};

/// An order of copies and launches on one device. Cheap to clone; clones are the same stream.
///
/// On CUDA the calls here enqueue and return, save those that copy to or from host slices, which block until done. On
/// the virtual GPU each call runs to its end.
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

    /// The device whose work it orders.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Waits for everything that the stream has been given.
    ///
    /// # Errors
    /// [`ErrorKind::LaunchFailed`] if a kernel failed since the last synchronisation.
    pub fn synchronize(&self) -> Result<(), Error> {
        self.not_captured("waiting for the stream")?;
        self.imp.synchronize()
    }

    /// Marks the point that the stream has reached.
    ///
    /// # Errors
    /// What the driver says.
    pub fn record(&self) -> Result<Event, Error> {
        self.not_captured("an event")?;
        Ok(Event::new(self.device.clone(), self.imp.record()?))
    }

    /// What comes later here waits for `event`, of any stream of this device.
    ///
    /// # Errors
    /// [`ErrorKind::MixedDevices`].
    pub fn wait(&self, event: &Event) -> Result<(), Error> {
        self.not_captured("waiting for an event")?;
        self.device.expect_same(event.device(), || "the event".to_owned())?;
        self.imp.wait(event.imp())
    }
}

/// Copies.
impl Stream {
    /// Copies host elements to the device; done with `from` when it returns.
    ///
    /// # Errors
    /// [`ErrorKind::LengthMismatch`], [`ErrorKind::MixedDevices`].
    pub fn copy_from_host<'a, T: Element>(&self, to: impl Into<ViewMut<'a, T>>, from: &[T]) -> Result<(), Error> {
        self.not_captured("a copy from the host")?;
        let to = to.into();
        same_len("copy from host", to.len(), from.len())?;
        self.expect_here(to.device(), "the destination")?;
        to.memory().order(&self.imp, Access::Write)?;
        self.run(ActivityKind::HostToDevice, to.num_bytes(), |clock| {
            self.imp.upload(to.address(), bytemuck::cast_slice(from), clock)
        })
    }

    /// Copies to host elements, which are there when it returns.
    ///
    /// # Errors
    /// [`ErrorKind::LengthMismatch`], [`ErrorKind::MixedDevices`]; [`ErrorKind::LaunchFailed`] if a kernel before it
    /// failed.
    pub fn copy_to_host<'a, T: Element>(&self, from: impl Into<View<'a, T>>, to: &mut [T]) -> Result<(), Error> {
        self.not_captured("a copy to the host")?;
        let from = from.into();
        same_len("copy to host", to.len(), from.len())?;
        self.expect_here(from.device(), "the source")?;
        from.memory().order(&self.imp, Access::Read)?;
        self.run(ActivityKind::DeviceToHost, from.num_bytes(), |clock| {
            self.imp.download(from.address(), bytemuck::cast_slice_mut(to), clock)
        })
    }

    /// Starts to copy all of `from` to the device. Looking into `from` later waits until it is done.
    ///
    /// # Errors
    /// [`ErrorKind::LengthMismatch`], [`ErrorKind::MixedDevices`].
    pub fn send<'a, T: Element>(&self, to: impl Into<ViewMut<'a, T>>, from: &HostBuffer<T>) -> Result<(), Error> {
        self.not_captured("a copy from the host")?;
        let to = to.into();
        same_len("send", to.len(), from.len())?;
        self.expect_here(to.device(), "the destination")?;
        self.expect_here(from.device(), "the host buffer")?;
        to.memory().order(&self.imp, Access::Write)?;
        self.run(ActivityKind::HostToDevice, to.num_bytes(), |clock| self.imp.send(to.address(), from.memory(), clock))
    }

    /// Starts to copy all of `from` to the host. Looking into `to` later waits until it is done.
    ///
    /// # Errors
    /// [`ErrorKind::LengthMismatch`], [`ErrorKind::MixedDevices`].
    pub fn receive<'a, T: Element>(&self, from: impl Into<View<'a, T>>, to: &mut HostBuffer<T>) -> Result<(), Error> {
        self.not_captured("a copy to the host")?;
        let from = from.into();
        same_len("receive", to.len(), from.len())?;
        self.expect_here(from.device(), "the source")?;
        self.expect_here(to.device(), "the host buffer")?;
        from.memory().order(&self.imp, Access::Read)?;
        self.run(ActivityKind::DeviceToHost, from.num_bytes(), |clock| {
            self.imp.receive(from.address(), to.memory_mut(), clock)
        })
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
        from.memory().order(&self.imp, Access::Read)?;
        to.memory().order(&self.imp, Access::Write)?;
        self.run(ActivityKind::DeviceToDevice, to.num_bytes(), |clock| {
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
        to.memory().order(&self.imp, Access::Write)?;
        self.run(ActivityKind::Fill, to.num_bytes(), |clock| {
            self.imp.fill(to.address(), byte, to.num_bytes() as u64, clock)
        })
    }
}

/// Launches.
impl Stream {
    /// Launches a kernel of loaded PTX with arguments of which only the layout is checked.
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
        arguments
            .check(info)
            .map_err(|reason| ErrorKind::InvalidLaunch { site: LaunchSite::new(&info.name, &config), reason })?;
        for (index, (memory, access)) in arguments.memory().iter().enumerate() {
            let what = || format!("buffer {} (pointer {index} of kernel {})", memory.name(), info.name);
            self.device.expect_same(memory.device(), what)?;
            memory.order(&self.imp, *access)?;
        }
        self.imp.capture().hold_function(imp);
        let span = self.imp.launch(&**imp, &config, Begin::of(info, &config), arguments, self.clock())?;
        self.device.activity().add(ActivityKind::Kernel(info.name.clone()), 0, span);
        Ok(())
    }
}

impl Stream {
    fn expect_here(&self, found: &Device, what: &str) -> Result<(), Error> {
        self.device.expect_same(found, || what.to_owned())
    }

    /// Whether work is timed; what is captured has no time yet.
    fn clock(&self) -> Clock {
        if self.imp.capture().is_on() { Clock::Off } else { self.device.activity().clock() }
    }

    /// Runs a copy or a fill of `bytes`, unless there are none, and notes it.
    fn run(
        &self,
        kind: ActivityKind,
        bytes: usize,
        work: impl FnOnce(Clock) -> Result<Option<Span>, Error>,
    ) -> Result<(), Error> {
        if bytes == 0 {
            return Ok(());
        }
        let span = work(self.clock())?;
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
