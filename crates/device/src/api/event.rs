//! Events: points in a stream.

use std::sync::Arc;
use std::time::Duration;

use crate::Error;
use crate::api::device::Device;
use crate::backend::BackendEvent;

/// A point in a stream: the host or other streams [wait](crate::Stream::wait) for it, and two of
/// them measure device time.
#[derive(Debug)]
pub struct Event {
    device: Device,
    imp: Arc<dyn BackendEvent>,
}

impl Event {
    pub(crate) fn new(device: Device, imp: Arc<dyn BackendEvent>) -> Self {
        Self { device, imp }
    }

    pub(crate) fn imp(&self) -> &dyn BackendEvent {
        &*self.imp
    }

    /// The device of the event's stream.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Waits until the stream has reached the event.
    ///
    /// # Errors
    /// [`ErrorKind::LaunchFailed`](crate::ErrorKind::LaunchFailed) if a kernel before it failed.
    pub fn synchronize(&self) -> Result<(), Error> {
        self.imp.synchronize()
    }

    /// Returns true if the stream has reached the event; does not wait.
    ///
    /// # Errors
    /// [`ErrorKind::LaunchFailed`](crate::ErrorKind::LaunchFailed) if a kernel before it failed.
    pub fn is_complete(&self) -> Result<bool, Error> {
        self.imp.is_complete()
    }

    /// Device time from `earlier` to this event, once both are reached. `None` on the virtual GPU,
    /// which has no clock.
    ///
    /// # Errors
    /// [`ErrorKind::MixedDevices`](crate::ErrorKind::MixedDevices), and those of
    /// [`Event::synchronize`].
    pub fn elapsed_since(&self, earlier: &Self) -> Result<Option<Duration>, Error> {
        self.device.expect_same(&earlier.device, || "the earlier event".to_owned())?;
        self.imp.elapsed_since(earlier.imp())
    }
}
