//! `--device`, and what stands in for it.

use warpfold_device::Device;

use crate::failure::Failure;

/// The device that a command names; without a name the one of the environment, or else the best there is.
pub(crate) fn open(name: Option<&str>) -> Result<Device, Failure> {
    Ok(match name {
        Some(name) => Device::parse(name)?,
        None => Device::from_env()?,
    })
}
