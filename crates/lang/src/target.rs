//! The target of a kernel: architecture, limits, and the newest PTX version that the driver
//! accepts.

use std::fmt;

pub use warpfold_ptx::{Arch, UnknownArch};

/// Limits of a kernel (CUDA programming guide, "Technical Specifications per Compute Capability").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Limits {
    /// Threads per block.
    pub max_threads: u32,
    /// Static shared memory per block, in bytes.
    pub max_static_shared_bytes: u32,
    /// Shared memory per block with opt-in, static plus dynamic, in bytes.
    pub max_shared_bytes: u32,
    /// 32-bit registers per thread.
    pub max_registers: u32,
}

impl Limits {
    /// The limits of an architecture.
    #[must_use]
    pub const fn of(arch: Arch) -> Self {
        let max_shared_bytes = match arch.number {
            80 | 87 => 163 << 10,
            81..=89 | 120.. => 99 << 10,
            _ => 227 << 10,
        };
        Self { max_threads: 1024, max_static_shared_bytes: 48 << 10, max_shared_bytes, max_registers: 255 }
    }
}

/// The target that PTX is written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Target {
    /// The architecture.
    pub arch: Arch,
    /// The newest `.version` that the driver accepts.
    pub ptx_version: (u32, u32),
    /// Resource limits of a block.
    pub limits: Limits,
}

impl Target {
    /// A target with the published limits of its architecture.
    #[must_use]
    pub const fn new(arch: Arch, ptx_version: (u32, u32)) -> Self {
        Self { arch, ptx_version, limits: Limits::of(arch) }
    }

    /// Returns true if the target has at least this architecture and PTX version.
    #[must_use]
    pub const fn has(&self, arch: u32, ptx_version: (u32, u32)) -> bool {
        let (major, minor) = self.ptx_version;
        self.arch.number >= arch && (major > ptx_version.0 || (major == ptx_version.0 && minor >= ptx_version.1))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} with PTX {}.{}", self.arch, self.ptx_version.0, self.ptx_version.1)
    }
}
