//! The target of a kernel: architecture, limits, and the newest PTX version that the driver
//! accepts.

use std::fmt;
use std::str::FromStr;

/// A compute capability, with the `a` suffix of architecture-specific targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Arch {
    /// Major and minor number as in `sm_90`: 90.
    pub number: u32,
    /// `sm_90a`: features that later architectures need not have.
    pub specific: bool,
}

impl Arch {
    /// A100.
    pub const SM_80: Self = Self { number: 80, specific: false };
    /// RTX 30 series.
    pub const SM_86: Self = Self { number: 86, specific: false };
    /// L4, L40, RTX 40 series.
    pub const SM_89: Self = Self { number: 89, specific: false };
    /// H100, H200, without the features that only this architecture has.
    pub const SM_90: Self = Self { number: 90, specific: false };
    /// H100, H200, with `wgmma` and `setmaxnreg`.
    pub const SM_90A: Self = Self { number: 90, specific: true };

    /// The first PTX version that supports this architecture (PTX ISA, ".target").
    #[must_use]
    pub const fn min_ptx_version(self) -> (u32, u32) {
        match (self.number, self.specific) {
            (..=80, _) => (7, 0),
            (81..=86, _) => (7, 1),
            (87, _) => (7, 4),
            (88..=90, false) => (7, 8),
            (88..=90, true) => (8, 0),
            (91..=100, _) => (8, 6),
            _ => (8, 7),
        }
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sm_{}{}", self.number, if self.specific { "a" } else { "" })
    }
}

/// The text is not `sm_NN` or `sm_NNa`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown architecture '{0}': expected sm_80 or later, such as sm_89 or sm_90a")]
pub struct UnknownArch(pub String);

impl FromStr for Arch {
    type Err = UnknownArch;

    fn from_str(text: &str) -> Result<Self, UnknownArch> {
        let unknown = || UnknownArch(text.to_owned());
        let digits = text.strip_prefix("sm_").ok_or_else(unknown)?;
        let (digits, specific) = digits.strip_suffix('a').map_or((digits, false), |rest| (rest, true));
        let number = digits.parse().map_err(|_| unknown())?;
        if number < 80 || (specific && number < 90) {
            return Err(unknown());
        }
        Ok(Self { number, specific })
    }
}

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
