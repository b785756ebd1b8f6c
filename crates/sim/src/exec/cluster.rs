//! Clusters: blocks resident together on one worker, and their access to each other's shared
//! memory.
//!
//! All blocks of a cluster belong to one host thread, which gives each a turn after the other. So
//! shared memory is plain memory for accesses from anywhere in the cluster. A block without a
//! cluster is a cluster of one.
//!
//! [`Machine::place`] resolves addresses in `.shared::cluster` (made by `mapa`).

use super::block::{Block, Context, Turn};
use super::geometry::Geometry;
use super::machine::Machine;
use super::memory_map::tagged;
use crate::asynchronous::transfers::Load;
use crate::check::{ClusterMemory, LaunchCheck, PeerUse, Released};

/// One block's shared memory, for the blocks of its cluster.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    /// Its shared memory; as large as the machine's [`shared_bytes`](Machine::shared_bytes).
    pub shared: *mut u8,
    /// All threads of the block have exited, and its shared memory is gone.
    pub exited: bool,
    /// Checker state of its shared memory, in a cluster of several blocks.
    pub check: Option<ClusterMemory>,
    /// Pending copies into it.
    pub loads: Vec<Load>,
    /// The last uses of it by each warp of the others, for the checker.
    pub uses: Vec<PeerUse>,
}

/// The cluster that the current block belongs to.
#[derive(Debug, Default)]
pub(crate) struct Cluster {
    /// Rank of the current block.
    pub rank: u32,
    /// Every block by rank, the current one among them.
    pub peers: Vec<Peer>,
    /// The launch or the kernel gave a cluster size.
    pub explicit: bool,
    /// Mask of the blocks in which a part may continue: set when a peer's memory changes under its
    /// waiting parts.
    pub wake: u32,
}

/// Target of an address in `.shared::cluster`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    /// Rank of the block.
    pub rank: u32,
    /// True if it is the current block.
    pub is_own: bool,
    /// Byte offset in that block's shared memory; may be out of bounds.
    pub offset: u32,
    /// Start of that block's shared memory, which is [`Machine::shared_bytes`] long.
    pub shared: *mut u8,
}

impl Machine {
    /// Resolves a 32-bit address in `.shared::cluster`; `None` if the cluster has no such block, or
    /// if it has exited.
    ///
    /// An address in `.shared::cta` is one in `.shared::cluster`, too: it lies in the current
    /// block. A generic address of shared memory is
    /// [`SHARED_WINDOW`](super::memory_map::SHARED_WINDOW) more.
    pub(crate) fn place(&self, address: u32) -> Option<Place> {
        let (rank, offset) = tagged(address, self.cluster.rank);
        match rank {
            Some(rank) if rank != self.cluster.rank => {
                let peer = self.cluster.peers.get(rank as usize).filter(|peer| !peer.exited)?;
                Some(Place { rank, is_own: false, offset, shared: peer.shared })
            }
            _ => Some(Place { rank: self.cluster.rank, is_own: true, offset, shared: self.shared }),
        }
    }
}

/// Blocks that are resident together.
pub(crate) struct Resident {
    /// The blocks, by rank.
    pub blocks: Vec<Block>,
    /// State that the blocks share; lent to the machine during a turn.
    cluster: Cluster,
}

impl Resident {
    /// Allocates storage for clusters of a launch.
    pub(crate) fn new(geometry: &Geometry) -> Self {
        let size: u32 = geometry.cluster.iter().product();
        let blocks = (0..size).map(|_| Block::new(geometry)).collect();
        Self { blocks, cluster: Cluster { explicit: geometry.explicit_cluster, ..Cluster::default() } }
    }

    /// Restarts the storage as cluster `index`.
    pub(crate) fn start(&mut self, index: u64, launch: Option<&LaunchCheck>, cx: &Context<'_>) {
        for (rank, block) in (0..).zip(&mut self.blocks) {
            block.start(cx.geometry.block_of(index, rank), launch, cx);
        }
        let has_peers = self.blocks.len() > 1;
        let index_of = |rank| u32::try_from(cx.geometry.block_of(index, rank)).unwrap_or(u32::MAX);
        let blocks: Vec<u32> = (0..).take(self.blocks.len()).map(index_of).collect();
        let peer = |block: &mut Block| Peer {
            shared: block.memory(),
            exited: false,
            check: if has_peers { block.join_cluster(cx.geometry, launch, &blocks) } else { None },
            loads: Vec::new(),
            uses: Vec::new(),
        };
        self.cluster.peers = self.blocks.iter_mut().map(peer).collect();
        self.cluster.wake = 0;
    }

    /// Warp instructions that its blocks have executed.
    pub(crate) fn clock(&self) -> u64 {
        self.blocks.iter().map(Block::clock).sum()
    }

    /// Gives each block a turn.
    pub(crate) fn turn(&mut self, m: &mut Machine, cx: &mut Context<'_>) -> Turn {
        std::mem::swap(&mut self.cluster, &mut m.cluster);
        let turn = self.turns(m, cx);
        std::mem::swap(&mut self.cluster, &mut m.cluster);
        turn
    }

    fn turns(&mut self, m: &mut Machine, cx: &mut Context<'_>) -> Turn {
        let (mut goes_on, mut waits) = (false, false);
        for rank in 0..self.blocks.len() {
            if m.cluster.peers[rank].exited {
                continue;
            }
            m.cluster.rank = u32::try_from(rank).expect("small clusters");
            match self.blocks[rank].turn(m, cx) {
                Turn::Done => {
                    m.cluster.peers[rank].exited = true;
                    self.blocks[rank].leave_cluster(&m.cluster.peers[rank].uses, m.checking.as_deref_mut());
                }
                Turn::Yield => goes_on = true,
                Turn::Stuck => waits = true,
                Turn::Stopped => return Turn::Stopped,
            }
            goes_on |= self.complete_barrier(cx);
            goes_on |= self.wake(std::mem::take(&mut m.cluster.wake));
        }
        match (goes_on, waits) {
            (true, _) => Turn::Yield,
            (false, true) => Turn::Stuck,
            (false, false) => Turn::Done,
        }
    }

    /// Makes blocks check again what they wait for.
    fn wake(&mut self, ranks: u32) -> bool {
        for (rank, block) in self.blocks.iter_mut().enumerate() {
            if ranks >> rank & 1 != 0 {
                block.wake();
            }
        }
        ranks != 0
    }

    /// Releases all warps that wait at the barrier of the cluster, if all threads that have not
    /// exited have arrived.
    fn complete_barrier(&mut self, cx: &Context<'_>) -> bool {
        let complete = self.blocks.iter().all(Block::has_arrived) && self.blocks.iter().any(|b| !b.has_exited());
        if !complete {
            return false;
        }
        let mut released = Released::default();
        for block in &mut self.blocks {
            released.join(&block.end_phase());
        }
        self.blocks.iter_mut().fold(false, |any, block| block.pass_cluster_barrier(&released, cx.code) | any)
    }
}
