//! Which devices there are, and which one a text names.

use crate::device::Device;
use crate::{Error, cuda};

/// Finding a device.
impl Device {
    /// The CUDA GPU with this number.
    ///
    /// # Errors
    /// [`crate::ErrorKind::NoDriver`], [`crate::ErrorKind::DriverTooOld`], [`crate::ErrorKind::NoDevice`] or
    /// [`crate::ErrorKind::UnsupportedArchitecture`].
    pub fn cuda(ordinal: usize) -> Result<Self, Error> {
        cuda::CudaDevice::open(ordinal).map(Self::from_backend)
    }
}
