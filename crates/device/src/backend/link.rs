//! Links between the memories of two devices.

use std::fmt;

/// Link from a device to the memory of another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Link {
    /// The same device.
    Same,
    /// Peer access over NVLink: the driver grants peer access with native atomics, which PCIe does
    /// not have.
    NvLink,
    /// Peer access over PCIe.
    Peer,
    /// No peer access: copies go through the host.
    Host,
    /// Virtual GPUs that share an address space.
    Virtual,
}

impl Link {
    /// Returns true if kernels may access the other device's memory.
    #[must_use]
    pub const fn has_peer_access(self) -> bool {
        !matches!(self, Self::Host)
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Same => "same",
            Self::NvLink => "NVLink",
            Self::Peer => "peer access",
            Self::Host => "host",
            Self::Virtual => "virtual",
        })
    }
}
