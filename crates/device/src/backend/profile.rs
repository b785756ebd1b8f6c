//! Profiles of the GPUs that the virtual GPU simulates.

use warpfold_sim::Arch;

use super::limits::Limits;
use super::properties::ComputeCapability;

/// The GPU whose architecture and limits the virtual GPU takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Profile {
    /// NVIDIA H200: sm_90a, 132 SMs, 141 GB.
    H200,
    /// NVIDIA A100 with 80 GB: sm_80, 108 SMs.
    A100,
}

impl Profile {
    /// Every profile.
    pub const ALL: [Self; 2] = [Self::H200, Self::A100];

    /// The architecture.
    #[must_use]
    pub const fn arch(self) -> Arch {
        match self {
            Self::H200 => Arch::SM_90A,
            Self::A100 => Arch::SM_80,
        }
    }

    /// The profile's name: `h200`, `a100`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::H200 => "h200",
            Self::A100 => "a100",
        }
    }

    /// The limits of the profile: those of the compute capability (CUDA C++ Programming Guide,
    /// "Technical Specifications per Compute Capability") and those of the GPU's data sheet.
    #[must_use]
    pub const fn limits(self) -> Limits {
        let a100 = Limits {
            compute_capability: ComputeCapability::new(8, 0),
            max_threads_per_block: 1024,
            max_block: [1024, 1024, 64],
            max_grid: [0x7fff_ffff, 65_535, 65_535],
            max_cluster_blocks: 1,
            has_mma: true,
            has_wgmma: false,
            shared_bytes_per_block: 48 << 10,
            shared_bytes_per_block_optin: 163 << 10,
            shared_bytes_per_sm: 164 << 10,
            registers_per_sm: 65_536,
            max_threads_per_sm: 2048,
            max_blocks_per_sm: 32,
            num_sms: 108,
            warp_size: 32,
            l2_bytes: 40 << 20,
            memory_bytes: 80_000_000_000,
        };
        match self {
            Self::A100 => a100,
            Self::H200 => Limits {
                compute_capability: ComputeCapability::new(9, 0),
                max_cluster_blocks: 16,
                has_wgmma: true,
                shared_bytes_per_block_optin: 227 << 10,
                shared_bytes_per_sm: 228 << 10,
                num_sms: 132,
                l2_bytes: 50 << 20,
                memory_bytes: 141_000_000_000,
                ..a100
            },
        }
    }
}
