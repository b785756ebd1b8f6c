//! Clusters: blocks that run at the same time and access each other's shared memory (distributed
//! shared memory), and the transfer of registers between warpgroups (sm_90; PTX ISA, "Cooperative
//! Thread Arrays", `barrier.cluster`, `setmaxnreg`).

use crate::Val;
use crate::block::Xyz;
use crate::intrinsics::special::{self, Register};
use crate::intrinsics::sync::{self, Direction};
use crate::recorder::with;

/// The block's number in its cluster.
#[must_use]
#[track_caller]
pub fn cluster_block_rank() -> Val<u32> {
    Val::from_raw(with(|r| {
        sync::require_clusters(r);
        special::constant(r, Register::ClusterCtarank, None)
    }))
}

/// The number of blocks of the cluster.
#[must_use]
#[track_caller]
pub fn num_cluster_blocks() -> Val<u32> {
    Val::from_raw(with(|r| {
        sync::require_clusters(r);
        special::constant(r, Register::ClusterNctarank, None)
    }))
}

/// The block's position in its cluster.
#[must_use]
#[track_caller]
pub fn cluster_block_idx() -> Xyz {
    with(|r| {
        sync::require_clusters(r);
        Xyz::read(r, Register::ClusterCtaid)
    })
}

/// The number of blocks of the cluster in each dimension.
#[must_use]
#[track_caller]
pub fn cluster_dim() -> Xyz {
    with(|r| {
        sync::require_clusters(r);
        Xyz::read(r, Register::ClusterNctaid)
    })
}

/// The cluster's position among the clusters of the grid.
#[must_use]
#[track_caller]
pub fn cluster_idx() -> Xyz {
    with(|r| {
        sync::require_clusters(r);
        Xyz::read(r, Register::Clusterid)
    })
}

/// The number of clusters in each dimension of the grid.
#[must_use]
#[track_caller]
pub fn num_clusters() -> Xyz {
    with(|r| {
        sync::require_clusters(r);
        Xyz::read(r, Register::Nclusterid)
    })
}

/// Waits for all threads of the cluster, and makes their earlier writes visible to each other. A
/// block must not exit while another may still access its shared memory: this barrier ensures that.
#[track_caller]
pub fn cluster_sync() {
    cluster_arrive();
    cluster_wait();
}

/// First half of [`cluster_sync`]: arrives without waiting.
#[track_caller]
pub fn cluster_arrive() {
    with(sync::cluster_arrive);
}

/// Like [`cluster_arrive`], without making earlier writes visible: signals only that the block has
/// begun.
#[track_caller]
pub fn cluster_arrive_relaxed() {
    with(sync::cluster_arrive_relaxed);
}

/// Second half of [`cluster_sync`]: waits for the other blocks.
#[track_caller]
pub fn cluster_wait() {
    with(sync::cluster_wait);
}

/// `setmaxnreg.dec`: this warpgroup's threads release registers until each has `down_to`, a
/// multiple of 8 from 24 to 256 (sm_90a).
///
/// All warps of the warpgroup come here. The kernel says how many
/// [threads](crate::Kernel::required_block) its blocks have, or how many
/// [registers](crate::Kernel::max_registers) its threads: from that the assembler knows what
/// threads start with. Without [`min_blocks`](crate::Kernel::min_blocks) one block a multiprocessor
/// is promised.
#[track_caller]
pub fn setmaxnreg_dec(down_to: u32) {
    with(|r| sync::set_registers(r, Direction::Give, down_to));
}

/// `setmaxnreg.inc`: waits until enough registers have been released for each thread of this
/// warpgroup to have `up_to`; see [`setmaxnreg_dec`].
#[track_caller]
pub fn setmaxnreg_inc(up_to: u32) {
    with(|r| sync::set_registers(r, Direction::Take, up_to));
}
