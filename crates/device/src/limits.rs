//! What a device has, and how much of it one block may take.

/// The limits of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Threads a block.
    pub max_threads_per_block: u32,
    /// Threads a block in x, y, z.
    pub max_block: [u32; 3],
    /// Blocks a grid in x, y, z.
    pub max_grid: [u32; 3],
    /// Blocks a cluster, sizes that are not portable included; 1 where there are no clusters.
    pub max_cluster_blocks: u32,
    /// Whether warps multiply matrices of halves, tf32 and 8-bit integers, and copies run in the background (`mma.sync`,
    /// `cp.async`: sm_80 on).
    pub has_mma: bool,
    /// Whether warpgroups multiply matrices (`wgmma`: sm_90a alone).
    pub has_wgmma: bool,
    /// Bytes of shared memory a block without opting in.
    pub shared_bytes_per_block: u32,
    /// Bytes of shared memory a block in all. Launches opt in by themselves.
    pub shared_bytes_per_block_optin: u32,
    /// Bytes of shared memory a multiprocessor.
    pub shared_bytes_per_sm: u32,
    /// 32-bit registers a multiprocessor.
    pub registers_per_sm: u32,
    /// Resident threads a multiprocessor.
    pub max_threads_per_sm: u32,
    /// Resident blocks a multiprocessor.
    pub max_blocks_per_sm: u32,
    /// Multiprocessors.
    pub num_sms: u32,
    /// Threads a warp.
    pub warp_size: u32,
    /// Bytes of second-level cache.
    pub l2_bytes: u64,
    /// Bytes of device memory.
    pub memory_bytes: u64,
}
