//! What a launch fixes for all blocks.

/// What a launch fixes for all blocks.
#[derive(Debug)]
pub(crate) struct Geometry {
    /// Blocks in x, y, z.
    pub grid: [u32; 3],
    /// Threads a block in x, y, z.
    pub block: [u32; 3],
    /// Blocks a cluster in x, y, z.
    pub cluster: [u32; 3],
    /// Threads a block.
    pub threads: u32,
    /// Bytes of dynamic shared memory.
    pub dynamic_shared: u32,
    /// Bytes of all shared memory, as laid out in the code.
    pub shared_bytes: u32,
    /// Index of the kernel's function.
    pub kernel: u32,
    /// Multiprocessors of the device that is stood in for.
    pub multiprocessors: u32,
    /// Which launch of the process it is.
    pub grid_id: u64,
    /// Whether the checks are on.
    pub checked: bool,
    /// Where a cooperative launch keeps the state of its grid barrier; null in other launches.
    pub grid_workspace: u64,
}

impl Geometry {
    /// Coordinates of a linear index in `extent`.
    pub(crate) fn coordinates(linear: u64, extent: [u32; 3]) -> [u32; 3] {
        let [x, y, _] = extent.map(u64::from);
        let narrow = |v: u64| u32::try_from(v).expect("a coordinate fits its extent");
        [narrow(linear % x), narrow(linear / x % y), narrow(linear / (x * y))]
    }

    /// Warps a block.
    pub(crate) fn warps(&self) -> u32 {
        self.threads.div_ceil(32)
    }
}
