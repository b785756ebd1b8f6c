//! Constant properties of a device: its kind, name, architecture and limits.

use std::fmt;

use super::limits::Limits;
use super::profile::Profile;

/// Kind of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeviceKind {
    /// An NVIDIA GPU behind the CUDA driver.
    Cuda {
        /// The ordinal of the driver.
        ordinal: usize,
    },
    /// The virtual GPU in this process.
    Virtual(Profile),
}

impl fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cuda { ordinal } => write!(f, "cuda:{ordinal}"),
            Self::Virtual(profile) => write!(f, "virtual:{}", profile.name()),
        }
    }
}

/// The newest CUDA version that a driver supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DriverVersion {
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
}

impl fmt::Display for DriverVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The compute capability of a GPU, such as 9.0: the generation of its SMs.
///
/// Kernels are built for an [`Arch`](crate::Arch), which a device runs but may be newer than: a GPU
/// of compute capability 12.0 runs kernels for sm_90. Tables of rates (FMAs per clock per SM, bytes
/// of L2 per clock) are looked up by compute capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ComputeCapability {
    /// Major number: 8 for Ampere and Ada, 9 for Hopper, 10 and 12 for Blackwell.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
}

impl ComputeCapability {
    /// The compute capability with these numbers.
    #[must_use]
    pub const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }
}

impl fmt::Display for ComputeCapability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// Constant properties of a device.
#[derive(Debug, Clone)]
pub(crate) struct Properties {
    pub(crate) kind: DeviceKind,
    pub(crate) name: String,
    pub(crate) arch: warpfold_sim::Arch,
    pub(crate) limits: Limits,
    pub(crate) driver: Option<DriverVersion>,
    /// The newest `.version` that the device accepts.
    pub(crate) ptx_version: (u32, u32),
    /// Identity of the device: equal for devices of one kind that share their memory.
    pub(crate) identity: u64,
}
