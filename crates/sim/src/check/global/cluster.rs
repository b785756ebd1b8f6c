//! Distributed shared memory: accesses of the blocks of a cluster to each other's shared memory.
//!
//! Towards other blocks of its cluster, shared memory is judged as global memory is: each block's
//! has a [`GlobalShadow`] under addresses of its own, which no device address meets, and the order
//! is that between blocks ([`grid`](crate::check::order::grid)). Inside the block the shadow of
//! [`shared`](crate::check::shared::shadow) judges as ever. The barrier of the cluster is one more
//! location at which warps release when they arrive, and which they acquire when they have waited.
//!
//! Not found: races between two warps of one block in a peer's memory.

use std::sync::Arc;

use crate::check::access::Access;
use crate::check::block::BlockCheck;
use crate::check::findings::{Findings, Found, Rule, Side};
use crate::check::global::records::LaunchCheck;
use crate::check::global::shadow::GlobalShadow;
use crate::check::order::reach::{Moment, Reach, join};
use crate::check::{Kind, Space, Strength, Values};

/// Start of the addresses for shared memory of clusters.
const START: u64 = 1 << 56;
/// Address bits of one block's shared memory.
const BLOCK_SHIFT: u32 = 24;

/// Block and offset of an address for a byte of some block's shared memory.
pub(crate) fn byte_of_block(address: u64) -> Option<(u64, u64)> {
    let index = address.checked_sub(START)?;
    Some((index >> BLOCK_SHIFT, index & ((1 << BLOCK_SHIFT) - 1)))
}

/// The address for a byte of a block's shared memory.
pub(in crate::check) fn address_in_block(block: u32, offset: u64) -> u64 {
    START + (u64::from(block) << BLOCK_SHIFT) + offset
}

/// One block's shared memory in its cluster.
#[derive(Debug, Clone)]
pub(crate) struct ClusterMemory {
    shadow: Arc<GlobalShadow>,
    base: u64,
}

impl ClusterMemory {
    /// The memory of the block with a linear index; only the first `reserved` bytes count as
    /// written.
    pub(crate) fn new(block: u32, bytes: u32, reserved: u32) -> Self {
        let base = address_in_block(block, 0);
        let shadow = GlobalShadow::new(base, u64::from(bytes)).between_blocks();
        shadow.mark_written(base, u64::from(reserved));
        Self { shadow: Arc::new(shadow), base }
    }

    /// The first unwritten byte of a range.
    pub(crate) fn first_unwritten(&self, (start, bytes): (u32, u32)) -> Option<u32> {
        let first = self.shadow.first_unwritten(self.base + u64::from(start), bytes.into())?;
        u32::try_from(first - self.base).ok()
    }

    /// Marks a byte as unwritten, since the value stored there came from an unwritten byte.
    pub(crate) fn leave_unwritten(&self, offset: u32) {
        self.shadow.leave_unwritten(self.base + u64::from(offset));
    }

    /// Converts offsets to addresses.
    pub(crate) fn addresses(&self, offsets: &[u32; 32]) -> [u64; 32] {
        offsets.map(|offset| self.base + u64::from(offset))
    }
}

/// Clock that a cluster barrier passes on from the arrivals.
#[derive(Debug, Clone, Default)]
pub(crate) struct Released(Option<Arc<Reach>>);

impl Released {
    /// Joins the clock that another block released.
    pub(crate) fn join(&mut self, other: &Self) {
        join(&mut self.0, other.0.as_ref());
    }
}

/// An access to a peer's shared memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PeerUse {
    this: Side,
    moment: Moment,
    address: u64,
}

impl PeerUse {
    /// Returns true if both accesses are of the same warp.
    pub(crate) fn is_by_warp_of(&self, other: &Self) -> bool {
        (self.this.block, self.this.warp) == (other.this.block, other.this.warp)
    }
}

impl BlockCheck {
    /// Access of a warp to shared memory of its cluster: its own (besides
    /// [`shared_access`](Self::shared_access)) or a peer's.
    pub(crate) fn cluster_access(
        &mut self,
        launch: &LaunchCheck,
        memory: &ClusterMemory,
        access: &Access,
        offsets: &[u32; 32],
        values: Option<&Values<'_>>,
        findings: &mut Findings,
    ) {
        let addresses = memory.addresses(offsets);
        self.global_access(launch, &memory.shadow, access, &addresses, values, findings);
        if access.is_strong() {
            self.release(launch, Space::Global, access, &addresses);
        }
    }

    /// Effects of a strong read or atomic in shared memory of the cluster, once its value is read.
    pub(crate) fn cluster_acquire(
        &mut self,
        launch: &LaunchCheck,
        memory: &ClusterMemory,
        access: &Access,
        offsets: &[u32; 32],
        findings: &mut Findings,
    ) {
        if access.kind != Kind::Write && matches!(access.strength, Strength::Strong(..)) {
            let addresses = memory.addresses(offsets);
            self.observe(launch, &memory.shadow, access, &addresses, findings);
            self.acquire(launch, Space::Global, access, &addresses);
        }
    }

    /// Records an access that must happen after the peer's start, and before its exit.
    pub(crate) fn peer_use(
        &mut self,
        memory: &ClusterMemory,
        access: &Access,
        offsets: &[u32; 32],
        findings: &mut Findings,
    ) -> PeerUse {
        let lane = access.mask.trailing_zeros();
        let this = Side { instr: access.instr, block: self.block, warp: access.warp, lane };
        let address = memory.base + u64::from(offsets[lane as usize]);
        // A warp that knows anything of other blocks is assumed to know of this one.
        if !self.peers_have_begun && !self.grid.is_informed(access.warp) {
            let rule = Rule::PeerMayNotHaveBegun;
            findings.add(Found { rule, space: Space::Global, address, this, other: None, count: 1 });
        }
        PeerUse { this, moment: self.grid.moment(access.warp), address }
    }

    /// Exit of the block, which ends its shared memory: every use by a peer must have happened
    /// before.
    pub(crate) fn exit(&self, uses: &[PeerUse], findings: &mut Findings) {
        for &PeerUse { this, moment, address } in uses {
            if !self.grid.any_knows(moment) {
                findings.add(Found {
                    rule: Rule::PeerMayHaveExited,
                    space: Space::Global,
                    address,
                    this,
                    other: None,
                    count: 1,
                });
            }
        }
    }

    /// Arrival of a warp at the barrier of the cluster; `releases` unless it is relaxed.
    pub(crate) fn arrive_at_cluster(&mut self, launch: &LaunchCheck, warp: u32, releases: bool) {
        self.order.arrive_at_cluster(warp, releases);
        self.grid.look_at_writes(&launch.locations, warp);
        self.grid.arrive_at_cluster(warp, releases);
    }

    /// All threads of the cluster have arrived: what this block's release. `exited` are the warps
    /// that count without having arrived; `all_wait` says that every other warp waits.
    pub(crate) fn end_phase(&mut self, exited: u32, all_wait: bool) -> Released {
        self.order.end_phase(all_wait);
        Released(self.grid.end_phase(exited))
    }

    /// Starts a phase with the clock that all blocks released, for those who wait or will wait.
    pub(crate) fn begin_phase(&mut self, released: Released) {
        self.grid.begin_phase(released.0);
    }

    /// End of a warp's wait at the barrier of the cluster.
    pub(crate) fn pass_cluster_barrier(&mut self, warp: u32) {
        self.peers_have_begun = true;
        self.order.learn_phase(warp);
        self.grid.learn_phase(warp);
    }
}
