//! Device discovery, and selection of a device by text.

#[cfg(feature = "virtual-gpu")]
use std::io::Write;
#[cfg(feature = "virtual-gpu")]
use std::sync::Once;

use crate::api::device::Device;
#[cfg(feature = "virtual-gpu")]
use crate::backend::Profile;
#[cfg(feature = "virtual-gpu")]
use crate::virtual_gpu::VirtualGpu;
use crate::{Error, ErrorKind, cuda};

/// Devices that always exist.
impl Device {
    /// The first usable CUDA GPU, or else a virtual one, which knows the
    /// [reason](Device::fallback_reason).
    ///
    /// The first time that it falls back it says so on standard error, as the virtual GPU is a
    /// thousand times slower than one of silicon; not where the environment variable
    /// `WARPFOLD_QUIET` is set to anything but nothing. [`Device::best_quietly`] says nothing.
    ///
    /// # Panics
    /// Without the feature `virtual-gpu`, where no CUDA GPU can be used; [`Device::from_env`] has
    /// that as an error.
    #[must_use]
    pub fn best() -> Self {
        #[cfg(feature = "virtual-gpu")]
        return Self::cuda_or_virtual();
        #[cfg(not(feature = "virtual-gpu"))]
        Self::cuda(0).unwrap_or_else(|reason| panic!("the virtual GPU is not part of this build, and {reason}"))
    }
}

impl Default for Device {
    /// [`Device::best`].
    fn default() -> Self {
        Self::best()
    }
}

/// The virtual GPU, and devices that fall back to it: with the feature `virtual-gpu`.
#[cfg(feature = "virtual-gpu")]
impl Device {
    fn cuda_or_virtual() -> Self {
        static SAID: Once = Once::new();
        let device = Self::best_quietly();
        if let Some(reason) = device.fallback_reason()
            && std::env::var_os("WARPFOLD_QUIET").is_none_or(|quiet| quiet.is_empty())
        {
            // A closed standard error leaves nobody to inform.
            SAID.call_once(|| drop(writeln!(std::io::stderr(), "warpfold: running on {device}: {reason}")));
        }
        device
    }

    /// Selects like [`Device::best`], without printing to standard error.
    #[must_use]
    pub fn best_quietly() -> Self {
        let first = match Self::cuda(0) {
            Ok(device) => return device,
            Err(e) => e,
        };
        let count = cuda::device_count().unwrap_or(0);
        let other = (1..count).find_map(|ordinal| Self::cuda(ordinal).ok());
        other.unwrap_or_else(|| Self::virtual_gpu(Profile::H200).with_fallback(first))
    }

    /// Creates a virtual GPU, with its own memory.
    #[must_use]
    pub fn virtual_gpu(profile: Profile) -> Self {
        Self::virtual_gpu_with_memory(profile, profile.limits().memory_bytes)
    }

    /// Creates a virtual GPU with `memory_bytes` of device memory instead of the profile's. Host
    /// memory is used only for allocations.
    #[must_use]
    pub fn virtual_gpu_with_memory(profile: Profile, memory_bytes: u64) -> Self {
        Self::from_backend(VirtualGpu::new(profile, memory_bytes))
    }
}

/// Device selection.
impl Device {
    /// All usable CUDA GPUs, then, with the feature `virtual-gpu`, a virtual one.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let count = cuda::device_count().unwrap_or(0);
        let devices = (0..count).filter_map(|ordinal| Self::cuda(ordinal).ok());
        #[cfg(feature = "virtual-gpu")]
        let devices = devices.chain([Self::virtual_gpu(Profile::H200)]);
        devices.collect()
    }

    /// Number of GPUs that the driver reports, including those too old to use.
    ///
    /// # Errors
    /// [`ErrorKind::NoDriver`], [`ErrorKind::DriverTooOld`].
    pub fn num_cuda() -> Result<usize, Error> {
        cuda::device_count()
    }

    /// The CUDA GPU with this ordinal.
    ///
    /// # Errors
    /// [`ErrorKind::NoDriver`], [`ErrorKind::DriverTooOld`], [`ErrorKind::NoDevice`] or
    /// [`ErrorKind::UnsupportedArchitecture`].
    pub fn cuda(ordinal: usize) -> Result<Self, Error> {
        cuda::CudaDevice::open(ordinal).map(Self::from_backend)
    }

    /// Alias of [`Device::cuda`] with candle's name.
    ///
    /// # Errors
    /// Those of [`Device::cuda`].
    pub fn new_cuda(ordinal: usize) -> Result<Self, Error> {
        Self::cuda(ordinal)
    }

    /// The CUDA GPU with this ordinal, or else a virtual one, which knows the
    /// [reason](Device::fallback_reason): candle would use its CPU.
    ///
    /// # Errors
    /// Without the feature `virtual-gpu`, those of [`Device::cuda`]; with it, none.
    pub fn cuda_if_available(ordinal: usize) -> Result<Self, Error> {
        #[cfg(feature = "virtual-gpu")]
        return Ok(Self::cuda(ordinal).unwrap_or_else(|e| Self::virtual_gpu(Profile::H200).with_fallback(e)));
        #[cfg(not(feature = "virtual-gpu"))]
        Self::cuda(ordinal)
    }

    /// Parses the name of a device: `virtual`, `virtual:h200`, `virtual:a100`, `cuda` (the first)
    /// or `cuda:N`. Without the feature `virtual-gpu`, the last two only.
    ///
    /// ```
    /// # use warpfold_device::Device;
    /// assert_eq!(Device::parse("virtual:a100")?.arch().to_string(), "sm_80");
    /// assert!(Device::parse("gpu").is_err());
    /// # Ok::<(), warpfold_device::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::UnknownDevice`], and those of [`Device::cuda`].
    pub fn parse(text: &str) -> Result<Self, Error> {
        let unknown = || ErrorKind::UnknownDevice(text.to_owned());
        match text.split_once(':') {
            #[cfg(feature = "virtual-gpu")]
            None if text == "virtual" => Ok(Self::virtual_gpu(Profile::H200)),
            None if text == "cuda" => Self::cuda(0),
            #[cfg(feature = "virtual-gpu")]
            Some(("virtual", name)) => {
                let profile = Profile::ALL.into_iter().find(|p| p.name() == name).ok_or_else(unknown)?;
                Ok(Self::virtual_gpu(profile))
            }
            Some(("cuda", ordinal)) => Self::cuda(ordinal.parse().map_err(|_| unknown())?),
            _ => Err(unknown().into()),
        }
    }

    /// The device that the environment variable `WARPFOLD_DEVICE` names. If it is not set,
    /// [`Device::best`], or without the feature `virtual-gpu` the first CUDA GPU. For programs and
    /// tests.
    ///
    /// # Errors
    /// Those of [`Device::parse`].
    pub fn from_env() -> Result<Self, Error> {
        match std::env::var_os("WARPFOLD_DEVICE") {
            Some(text) => Self::parse(&text.to_string_lossy()),
            #[cfg(feature = "virtual-gpu")]
            None => Ok(Self::best()),
            #[cfg(not(feature = "virtual-gpu"))]
            None => Self::cuda(0),
        }
    }
}
