//! Geometry of a launch: grid, block and cluster.

use std::sync::Arc;

/// Parameters of a launch that all its blocks share.
#[derive(Debug)]
pub(crate) struct Geometry {
    /// Blocks in x, y, z.
    pub grid: [u32; 3],
    /// Threads per block in x, y, z.
    pub block: [u32; 3],
    /// Blocks per cluster in x, y, z.
    pub cluster: [u32; 3],
    /// True if the launch or the kernel gave the cluster size.
    pub explicit_cluster: bool,
    /// Registers per thread at its start, if the kernel's directives give it (for `setmaxnreg`).
    pub entry_registers: Option<u32>,
    /// Threads per block.
    pub threads: u32,
    /// Bytes of dynamic shared memory.
    pub dynamic_shared: u32,
    /// Bytes of all shared memory, as laid out in the code.
    pub shared_bytes: u32,
    /// Bytes of shared memory that the kernel uses, in the hardware's allocation units.
    pub user_shared: u32,
    /// Bytes at the start of shared memory that the system reserves.
    pub reserved_shared: u32,
    /// Warp instructions in one turn of a block at most.
    pub limit: u64,
    /// Index of the kernel's function.
    pub kernel: u32,
    /// Multiprocessors of the simulated device.
    pub multiprocessors: u32,
    /// Number of the launch within the process.
    pub grid_id: u64,
    /// Seed of the order in which copies complete.
    pub seed: u64,
    /// True if the checks are on.
    pub checked: bool,
    /// Parameters per device in a launch over several devices. Their blocks are one grid here, with
    /// the device in z; kernels see the grid of their device.
    pub devices: Option<Arc<[Arc<[u8]>]>>,
    /// Address of a cooperative launch's grid barrier state; null in other launches.
    pub grid_workspace: u64,
}

impl Geometry {
    /// Coordinates of a linear index in `extent`.
    pub(crate) fn coordinates(linear: u64, extent: [u32; 3]) -> [u32; 3] {
        let [x, y, _] = extent.map(u64::from);
        let narrow = |v: u64| u32::try_from(v).expect("a coordinate fits its extent");
        [narrow(linear % x), narrow(linear / x % y), narrow(linear / (x * y))]
    }

    /// Blocks per cluster.
    pub(crate) fn cluster_blocks(&self) -> u64 {
        self.cluster.iter().map(|&n| u64::from(n)).product()
    }

    /// Linear index in the grid of the block with a rank in cluster `index`.
    pub(crate) fn block_of(&self, index: u64, rank: u32) -> u64 {
        let clusters = [0, 1, 2].map(|axis| self.grid[axis] / self.cluster[axis]);
        let (cluster, inner) = (Self::coordinates(index, clusters), Self::coordinates(u64::from(rank), self.cluster));
        let at = [0, 1, 2].map(|axis| u64::from(cluster[axis] * self.cluster[axis] + inner[axis]));
        (at[2] * u64::from(self.grid[1]) + at[1]) * u64::from(self.grid[0]) + at[0]
    }

    /// Block coordinates and grid size as the kernel sees them.
    pub(crate) fn seen(&self, block: [u32; 3]) -> ([u32; 3], [u32; 3]) {
        let own = |[x, y, z]: [u32; 3], alone| if self.devices.is_some() { [x, y, alone] } else { [x, y, z] };
        (own(block, 0), own(self.grid, 1))
    }

    /// Warps per block.
    pub(crate) fn warps(&self) -> u32 {
        self.threads.div_ceil(32)
    }
}
