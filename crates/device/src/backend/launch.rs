//! Configuration of a launch, and the rules for it on every device.

use std::fmt;

use super::function::FunctionInfo;
use super::limits::Limits;
use crate::{Error, ErrorKind};

/// Sizes in one to three dimensions: `256`, `(64, 4)`, `(8, 8, 4)` or `[8, 8, 4]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Dim3(pub [u32; 3]);

impl From<u32> for Dim3 {
    fn from(x: u32) -> Self {
        Self([x, 1, 1])
    }
}

impl From<(u32, u32)> for Dim3 {
    fn from((x, y): (u32, u32)) -> Self {
        Self([x, y, 1])
    }
}

impl From<(u32, u32, u32)> for Dim3 {
    fn from((x, y, z): (u32, u32, u32)) -> Self {
        Self([x, y, z])
    }
}

impl From<[u32; 3]> for Dim3 {
    fn from(sizes: [u32; 3]) -> Self {
        Self(sizes)
    }
}

/// Configuration of a kernel launch.
///
/// ```
/// use warpfold_device::LaunchConfig;
///
/// let config = LaunchConfig::new(128, 256).dynamic_shared(1024);
/// assert_eq!((config.grid, config.block), ([128, 1, 1], [256, 1, 1]));
/// assert_eq!(LaunchConfig::for_elements(1000, 256).grid, [4, 1, 1]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LaunchConfig {
    /// Blocks in x, y, z.
    pub grid: [u32; 3],
    /// Threads per block in x, y, z.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory per block; the kernel's declared amount if that is more.
    pub dynamic_shared: u32,
    /// Blocks per cluster in x, y, z; `None` for no clusters, or for those that the kernel
    /// requires.
    pub cluster: Option<[u32; 3]>,
    /// True for a cooperative launch: all blocks are resident at once, so they may wait for each
    /// other.
    pub cooperative: bool,
}

impl LaunchConfig {
    /// A plain launch of `grid` blocks of `block` threads.
    #[must_use]
    pub fn new(grid: impl Into<Dim3>, block: impl Into<Dim3>) -> Self {
        let (Dim3(grid), Dim3(block)) = (grid.into(), block.into());
        Self { grid, block, dynamic_shared: 0, cluster: None, cooperative: false }
    }

    /// One thread per element, in blocks of `block` threads. Too many blocks for a grid give a grid
    /// that no device accepts, so that the launch fails with the limit in its message.
    #[must_use]
    pub fn for_elements(elements: usize, block: u32) -> Self {
        let blocks = elements.div_ceil(block.max(1) as usize);
        Self::new(u32::try_from(blocks).unwrap_or(u32::MAX), block)
    }

    /// Sets the bytes of dynamic shared memory per block.
    #[must_use]
    pub fn dynamic_shared(self, bytes: u32) -> Self {
        Self { dynamic_shared: bytes, ..self }
    }

    /// Sets the cluster size in blocks (sm_90 and later).
    #[must_use]
    pub fn cluster(self, blocks: impl Into<Dim3>) -> Self {
        Self { cluster: Some(blocks.into().0), ..self }
    }

    /// Makes the launch cooperative: all blocks are resident at once.
    #[must_use]
    pub fn cooperative(self) -> Self {
        Self { cooperative: true, ..self }
    }

    /// Threads per block.
    #[must_use]
    pub fn num_threads(&self) -> u64 {
        self.block.iter().map(|&n| u64::from(n)).product()
    }
}

/// Start of a launch relative to earlier work. It follows from the kernel: see
/// [`FunctionInfo::programmatic`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begin {
    /// After all earlier work of the stream.
    InTurn,
    /// During the launch before it in the stream (programmatic dependent launch).
    Early,
}

impl Begin {
    /// Cooperative launches begin in turn: nothing that the driver documents says that they may
    /// begin early.
    pub(crate) fn of(function: &FunctionInfo, config: &LaunchConfig) -> Self {
        if function.programmatic && !config.cooperative { Self::Early } else { Self::InTurn }
    }
}

/// The launch that an error refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchSite {
    /// The kernel's name.
    pub kernel: String,
    /// Blocks in x, y, z.
    pub grid: [u32; 3],
    /// Threads per block in x, y, z.
    pub block: [u32; 3],
}

impl LaunchSite {
    pub(crate) fn new(kernel: &str, config: &LaunchConfig) -> Self {
        Self { kernel: kernel.to_owned(), grid: config.grid, block: config.block }
    }
}

impl fmt::Display for LaunchSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([gx, gy, gz], [bx, by, bz]) = (self.grid, self.block);
        write!(f, "kernel {} (grid {gx}x{gy}x{gz}, block {bx}x{by}x{bz})", self.kernel)
    }
}

/// Checks a launch against the limits of device and kernel, so that both kinds of device refuse it
/// with the same message.
pub(crate) fn check(config: &LaunchConfig, function: &FunctionInfo, limits: &Limits) -> Result<(), Error> {
    let site = || LaunchSite::new(&function.name, config);
    let invalid = |reason: String| Err(ErrorKind::InvalidLaunch { site: site(), reason }.into());
    for (sizes, most, what) in [(config.grid, limits.max_grid, "grid"), (config.block, limits.max_block, "block")] {
        for axis in 0..3 {
            let name = ["x", "y", "z"][axis];
            if sizes[axis] == 0 {
                return invalid(format!("the {what} is empty: its size in {name} is 0"));
            }
            if sizes[axis] > most[axis] {
                return invalid(format!(
                    "the {what}'s size in {name} is {}, at most {} is possible",
                    sizes[axis], most[axis]
                ));
            }
        }
    }
    check_threads(config, function, limits)?;
    let shared = u64::from(function.static_shared) + u64::from(config.dynamic_shared);
    if shared > u64::from(limits.shared_bytes_per_block_optin) {
        return Err(ErrorKind::TooMuchShared {
            site: site(),
            static_bytes: function.static_shared,
            dynamic_bytes: config.dynamic_shared,
            limit: limits.shared_bytes_per_block_optin,
        }
        .into());
    }
    if function.programmatic && limits.max_cluster_blocks < 2 {
        return invalid("programmatic dependent launches need sm_90 or later".to_owned());
    }
    if let (Some(cluster), Some(required)) = (config.cluster, function.required_cluster)
        && cluster != required
    {
        return invalid(format!("the kernel requires a cluster of {required:?} (.reqnctapercluster)"));
    }
    let Some(cluster) = config.cluster.or(function.required_cluster) else { return Ok(()) };
    let blocks: u64 = cluster.iter().map(|&n| u64::from(n)).product();
    if blocks > 1 && limits.max_cluster_blocks < 2 {
        return invalid("clusters need sm_90 or later".to_owned());
    }
    if blocks == 0 || blocks > u64::from(limits.max_cluster_blocks) {
        return invalid(format!("a cluster has 1 to {} blocks, not {blocks}", limits.max_cluster_blocks));
    }
    if (0..3).any(|axis| !config.grid[axis].is_multiple_of(cluster[axis])) {
        return invalid(format!("the grid is not a multiple of the cluster {cluster:?} in every dimension"));
    }
    Ok(())
}

fn check_threads(config: &LaunchConfig, function: &FunctionInfo, limits: &Limits) -> Result<(), Error> {
    let threads = config.num_threads();
    let site = || LaunchSite::new(&function.name, config);
    let of_kernel = function.max_threads.unwrap_or(u32::MAX);
    let (limit, limited_by) = if of_kernel < limits.max_threads_per_block {
        (of_kernel, "the kernel's registers, .maxntid or .reqntid")
    } else {
        (limits.max_threads_per_block, "the device")
    };
    if threads > u64::from(limit) {
        return Err(ErrorKind::TooManyThreads { site: site(), threads, limit, limited_by }.into());
    }
    match function.required_block {
        Some(required) if required != config.block => Err(ErrorKind::InvalidLaunch {
            site: site(),
            reason: format!("the kernel requires a block of {required:?} (.reqntid)"),
        }
        .into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function() -> FunctionInfo {
        FunctionInfo {
            name: "k".to_owned(),
            places: crate::backend::Places::Packed,
            params: Some(Vec::new()),
            static_shared: 1024,
            max_threads: None,
            required_block: None,
            required_cluster: None,
            registers: 16,
            programmatic: false,
        }
    }

    #[track_caller]
    fn refused(config: LaunchConfig, function: &FunctionInfo, text: &str) {
        let error = check(&config, function, &crate::Profile::H200.limits()).expect_err("the launch is refused");
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn a_launch_within_every_limit_is_accepted() {
        let limits = crate::Profile::H200.limits();
        let config = LaunchConfig::new(1, 1024).dynamic_shared(limits.shared_bytes_per_block_optin - 1024);
        check(&config, &function(), &limits).expect("at the limits");
        check(&LaunchConfig::new((4, 2), 32).cluster((4, 2)), &function(), &limits).expect("a cluster of eight");
    }

    #[test]
    fn too_many_threads_name_the_limit_and_whose_it_is() {
        refused(
            LaunchConfig::new(1, (64, 32)),
            &function(),
            "cannot launch kernel k (grid 1x1x1, block 64x32x1): 2048 threads per block are more than the limit of 1024 \
             (the device)",
        );
        refused(
            LaunchConfig::new(1, 512),
            &FunctionInfo { max_threads: Some(256), ..function() },
            "cannot launch kernel k (grid 1x1x1, block 512x1x1): 512 threads per block are more than the limit of 256 \
             (the kernel's registers, .maxntid or .reqntid)",
        );
    }

    #[test]
    fn too_much_shared_memory_names_the_limit() {
        refused(
            LaunchConfig::new(1, 32).dynamic_shared(232_448),
            &function(),
            "cannot launch kernel k (grid 1x1x1, block 32x1x1): 1024 static and 232448 dynamic bytes of shared memory \
             are more than the limit of 232448 bytes per block",
        );
    }

    #[test]
    fn an_empty_grid_or_block_and_one_too_long_are_refused() {
        refused(
            LaunchConfig::for_elements(0, 256),
            &function(),
            "cannot launch kernel k (grid 0x1x1, block 256x1x1): the grid is empty: its size in x is 0",
        );
        refused(
            LaunchConfig::new((1, 70_000), 1),
            &function(),
            "cannot launch kernel k (grid 1x70000x1, block 1x1x1): the grid's size in y is 70000, at most 65535 is \
             possible",
        );
        refused(
            LaunchConfig::new(1, (1, 1, 128)),
            &function(),
            "cannot launch kernel k (grid 1x1x1, block 1x1x128): the block's size in z is 128, at most 64 is possible",
        );
    }

    #[test]
    fn a_cluster_that_does_not_divide_the_grid_is_refused() {
        refused(
            LaunchConfig::new(6, 32).cluster(4),
            &function(),
            "cannot launch kernel k (grid 6x1x1, block 32x1x1): the grid is not a multiple of the cluster [4, 1, 1] in \
             every dimension",
        );
        let limits = crate::Profile::A100.limits();
        let error = check(&LaunchConfig::new(4, 32).cluster(4), &function(), &limits).expect_err("sm_80");
        assert!(error.to_string().ends_with("clusters need sm_90 or later"), "{error}");
    }
}
