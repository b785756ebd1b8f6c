//! Resources of a device, and the limits of one block.

use super::properties::ComputeCapability;

/// Limits of a device, as reported by the driver's device attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Compute capability: 9.0 for an H200. Kernels choose by it where rates differ from one
    /// architecture to the next; what an instruction needs is in [`Limits::has_mma`] and
    /// [`Limits::has_wgmma`].
    pub compute_capability: ComputeCapability,
    /// Threads per block.
    pub max_threads_per_block: u32,
    /// Threads per block in x, y, z.
    pub max_block: [u32; 3],
    /// Blocks per grid in x, y, z.
    pub max_grid: [u32; 3],
    /// Maximum blocks per cluster, non-portable sizes included; 1 without clusters.
    pub max_cluster_blocks: u32,
    /// True with `mma.sync` for f16, bf16, tf32 and int8, and `cp.async` (sm_80 and later).
    pub has_mma: bool,
    /// True with `wgmma`, fed by TMA (sm_90a alone).
    pub has_wgmma: bool,
    /// Bytes of shared memory per block without opt-in.
    pub shared_bytes_per_block: u32,
    /// Bytes of shared memory per block with opt-in, which launches request automatically.
    pub shared_bytes_per_block_optin: u32,
    /// Bytes of shared memory per SM.
    pub shared_bytes_per_sm: u32,
    /// 32-bit registers per SM.
    pub registers_per_sm: u32,
    /// Resident threads per SM.
    pub max_threads_per_sm: u32,
    /// Resident blocks per SM.
    pub max_blocks_per_sm: u32,
    /// Number of SMs.
    pub num_sms: u32,
    /// Threads per warp.
    pub warp_size: u32,
    /// Bytes of L2.
    pub l2_bytes: u64,
    /// Bytes of device memory.
    pub memory_bytes: u64,
}
