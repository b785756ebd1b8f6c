//! Sizes of a launch, as allowed by the limits, the kernel and its clusters.

use std::sync::atomic::{AtomicU64, Ordering};

use super::code::Code;
use super::geometry::Geometry;
use crate::{Arch, Checks, Error, KernelInfo, Launch, Options};

/// Allocation unit of shared memory (PTX ISA, "%total_smem_size").
const SHARED_UNIT: u32 = 128;

/// Number of the next launch of the process.
static GRID_ID: AtomicU64 = AtomicU64::new(1);

/// Computes the geometry of a launch, if the kernel and the device allow it.
pub(super) fn geometry(
    code: &Code,
    kernel: &KernelInfo,
    arch: Arch,
    launch: &Launch,
    options: &Options,
) -> Result<Geometry, Error> {
    let refuse = |reason: String| Err(Error::InvalidLaunch { kernel: kernel.name.clone(), reason });
    let [gx, gy, gz] = launch.grid;
    let [bx, by, bz] = launch.block;
    if gx == 0 || gy == 0 || gz == 0 || bx == 0 || by == 0 || bz == 0 {
        return refuse(format!("grid {:?} and block {:?} must not have a zero", launch.grid, launch.block));
    }
    if gx > 0x7fff_ffff || gy > 65535 || gz > 65535 {
        return refuse(format!("grid {:?} is over the limit of [2147483647, 65535, 65535] blocks", launch.grid));
    }
    let threads = u64::from(bx) * u64::from(by) * u64::from(bz);
    if threads > 1024 || bx > 1024 || by > 1024 || bz > 64 {
        return refuse(format!(
            "block {:?} has {threads} threads; the limits are 1024 threads and [1024, 1024, 64]",
            launch.block
        ));
    }
    if let Some(max) = kernel.max_threads.filter(|&max| threads > u64::from(max)) {
        return refuse(format!("block {:?} has {threads} threads; the kernel declares at most {max}", launch.block));
    }
    if let Some(required) = kernel.required_block.filter(|r| *r != launch.block) {
        return refuse(format!("block {:?} differs from the {required:?} that the kernel requires", launch.block));
    }
    let cluster = cluster_of(kernel, arch, launch)?;
    let limit = crate::occupancy::limits(arch).shared_per_block;
    let shared_bytes = kernel.static_shared.next_multiple_of(code.dynamic_align()).checked_add(launch.dynamic_shared);
    let Some(user_shared) = shared_bytes.filter(|&bytes| bytes <= limit) else {
        return refuse(format!(
            "{} static and {} dynamic bytes of shared memory are over the limit of {limit}",
            kernel.static_shared, launch.dynamic_shared
        ));
    };
    if launch.params.len() != kernel.param_bytes as usize {
        return refuse(format!("{} bytes of parameters given, {} expected", launch.params.len(), kernel.param_bytes));
    }
    Ok(Geometry {
        grid: launch.grid,
        block: launch.block,
        cluster,
        entry_registers: kernel.entry_registers,
        explicit_cluster: kernel.required_cluster.is_some() || cluster != [1, 1, 1],
        threads: u32::try_from(threads).expect("at most 1024"),
        dynamic_shared: launch.dynamic_shared,
        shared_bytes: if launch.dynamic_shared == 0 {
            code.static_shared
        } else {
            code.dynamic_shared_start() + launch.dynamic_shared
        },
        user_shared: user_shared.next_multiple_of(SHARED_UNIT),
        reserved_shared: code.reserved_shared,
        limit: options.limit,
        kernel: code.function_index[&kernel.name],
        multiprocessors: crate::occupancy::limits(arch).multiprocessors,
        grid_id: GRID_ID.fetch_add(1, Ordering::Relaxed),
        seed: options.seed,
        checked: options.checks != Checks::None,
        devices: None,
        grid_workspace: 0,
    })
}

impl Geometry {
    /// Spreads the launch over several devices, each with its own parameters.
    pub(super) fn spread_over(&mut self, devices: &[Vec<u8>]) -> Result<(), String> {
        if devices.is_empty() {
            return Err("a launch over several devices names no device".to_owned());
        }
        if self.grid[2] != 1 || self.cluster != [1, 1, 1] {
            let (grid, cluster) = (self.grid, self.cluster);
            return Err(format!(
                "a launch over several devices has one block in z and no clusters, not {grid:?} {cluster:?}"
            ));
        }
        if let Some(other) = devices.iter().find(|params| params.len() != devices[0].len()) {
            return Err(format!("{} bytes of parameters on one device, {} on another", devices[0].len(), other.len()));
        }
        self.grid[2] = u32::try_from(devices.len()).map_err(|_| "too many devices".to_owned())?;
        self.devices = Some(devices.iter().map(|params| params.clone().into()).collect());
        Ok(())
    }
}

// THRESHOLD: larger clusters are refused; tested by
// crates/cli/tests/program/bad_input.rs::clusters_that_cannot_be_launched_are_refused
/// Blocks that a cluster may have at most, of all architectures so far (CUDA programming guide,
/// "Thread Block Clusters"); more than 8 are not portable, and a driver wants to be told that they
/// are meant.
const MAX_CLUSTER: u64 = 16;

/// Cluster size of a launch: the requested one, or the kernel's required one.
fn cluster_of(kernel: &KernelInfo, arch: Arch, launch: &Launch) -> Result<[u32; 3], Error> {
    let refuse = |reason: String| Err(Error::InvalidLaunch { kernel: kernel.name.clone(), reason });
    let asked = (launch.cluster != [1, 1, 1]).then_some(launch.cluster);
    if let (Some(asked), Some(required)) = (asked, kernel.required_cluster)
        && asked != required
    {
        return refuse(format!("cluster {asked:?} differs from the {required:?} that the kernel requires"));
    }
    let Some(cluster) = asked.or(kernel.required_cluster) else {
        if kernel.explicit_cluster {
            return refuse("the kernel must be launched with a cluster size".to_owned());
        }
        return Ok([1, 1, 1]);
    };
    if arch.number < 90 {
        return refuse(format!("clusters need sm_90 or later; the device is {arch}"));
    }
    let blocks: u64 = cluster.iter().map(|&n| u64::from(n)).product();
    if blocks == 0 || blocks > MAX_CLUSTER {
        return refuse(format!("cluster {cluster:?} has {blocks} blocks; 1 to {MAX_CLUSTER} are possible"));
    }
    if let Some(most) = kernel.max_cluster_blocks.filter(|&most| blocks > u64::from(most)) {
        return refuse(format!("cluster {cluster:?} has {blocks} blocks; the kernel declares at most {most}"));
    }
    if (0..3).any(|axis| !launch.grid[axis].is_multiple_of(cluster[axis])) {
        return refuse(format!(
            "grid {:?} is not a multiple of the cluster {cluster:?} in every dimension",
            launch.grid
        ));
    }
    Ok(cluster)
}
