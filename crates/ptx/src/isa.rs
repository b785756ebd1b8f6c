//! Terms of the PTX ISA that are no part of the syntax tree, and mean the same everywhere:
//! architectures, memory orders, scopes, layouts of matrices.

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

/// Memory order of a strong access (PTX ISA, "Memory Consistency Model").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Order {
    /// Nothing but the access itself; fences before or after add order.
    Relaxed,
    /// Later accesses stay after it.
    Acquire,
    /// Earlier accesses stay before it.
    Release,
    /// Both.
    AcqRel,
}

impl Order {
    /// Returns true if later accesses stay after it.
    #[must_use]
    pub const fn acquires(self) -> bool {
        matches!(self, Self::Acquire | Self::AcqRel)
    }

    /// Returns true if earlier accesses stay before it.
    #[must_use]
    pub const fn releases(self) -> bool {
        matches!(self, Self::Release | Self::AcqRel)
    }
}

/// Scope of an access or a fence: the threads among which it orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// The block (`.cta`).
    Block,
    /// The cluster; sm_90.
    Cluster,
    /// The device.
    Gpu,
    /// All devices and the host (`.sys`).
    System,
}

/// The dimension of a matrix that is contiguous: it runs along the columns of its tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Major {
    /// The dimension that products sum over (K-major): a tile has one row for each row of A, or
    /// column of B.
    K,
    /// The other dimension (MN-major): a tile has one row for each step of the sum. 16-bit elements
    /// only.
    Mn,
}
