//! Architectures that the virtual GPU simulates, and their published limits.

use std::fmt;
use std::str::FromStr;

/// A compute capability, with the `a` suffix of architecture-specific targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Arch {
    /// Major and minor number as in `sm_90`: 90.
    pub number: u32,
    /// `sm_90a`.
    pub specific: bool,
}

impl Arch {
    /// A100.
    pub const SM_80: Self = Self { number: 80, specific: false };
    /// H100, H200.
    pub const SM_90A: Self = Self { number: 90, specific: true };
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sm_{}{}", self.number, if self.specific { "a" } else { "" })
    }
}

/// The text is not `sm_NN` or `sm_NNa` of a supported architecture.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown architecture '{0}': expected one of sm_80, sm_86, sm_87, sm_89, sm_90, sm_90a")]
pub struct UnknownArch(pub String);

impl FromStr for Arch {
    type Err = UnknownArch;

    fn from_str(text: &str) -> Result<Self, UnknownArch> {
        let unknown = || UnknownArch(text.to_owned());
        let digits = text.strip_prefix("sm_").ok_or_else(unknown)?;
        let (digits, specific) = digits.strip_suffix('a').map_or((digits, false), |d| (d, true));
        let number = digits.parse().map_err(|_| unknown())?;
        match (number, specific) {
            (80 | 86 | 87 | 89 | 90, false) | (90, true) => Ok(Self { number, specific }),
            _ => Err(unknown()),
        }
    }
}
