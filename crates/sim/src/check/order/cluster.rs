//! Clusters in the order between blocks: their barrier, and scopes that end at a cluster.
//!
//! A release and an acquire synchronise if their scopes include each other's thread (PTX ISA,
//! "Memory synchronization", "Scope"). So what a block of a cluster releases says by which cluster,
//! and whether it is for others ([`Fact::Told`]); who acquires it knows whether that is near.

use std::sync::Arc;

use warpfold_ptx::Scope;

use crate::check::access::Lanes;
use crate::check::order::grid::GridOrder;
use crate::check::order::reach::{Extent, Fact, Grade, Reach, join};

/// Clock that a phase of the cluster's barrier passes on.
#[derive(Debug, Default)]
pub(super) struct Phase {
    pub(super) released: Option<Arc<Reach>>,
    /// The block's own accesses below this tick.
    pub(super) all: u32,
}

/// The cluster of a block.
#[derive(Debug, Default)]
pub(super) struct Cluster {
    /// Its blocks, if there are several.
    blocks: Vec<u32>,
    /// Scopes of the program end at the cluster.
    has_scopes: bool,
}

impl Cluster {
    pub(super) fn begin(&mut self) {
        self.blocks.clear();
    }

    /// The cluster's name, if it matters which one it is.
    fn name(&self) -> Option<u32> {
        self.blocks.first().copied().filter(|_| self.has_scopes)
    }

    /// Returns true if an operation of this scope is for the cluster alone.
    pub(super) fn ends(&self, scope: Scope) -> bool {
        scope == Scope::Cluster && self.name().is_some()
    }

    /// Facts that a release of a scope gives away.
    pub(super) fn given(&self, reach: &Arc<Reach>, scope: Scope) -> Arc<Reach> {
        let beyond = scope != Scope::Cluster;
        match self.name() {
            _ if scope == Scope::Block => Arc::new(reach.narrowed()),
            None => Arc::clone(reach),
            Some(cluster) => Arc::new(reach.restated(|fact| match fact {
                Fact::Known(Grade::Wide) => Some(Fact::Told { cluster, beyond }),
                Fact::Told { cluster, beyond: wide } => Some(Fact::Told { cluster, beyond: wide && beyond }),
                other => Some(other),
            })),
        }
    }

    /// Facts that an acquire of a scope may take of those given away.
    pub(super) fn taken(&self, reach: &Arc<Reach>, scope: Scope) -> Arc<Reach> {
        match self.name() {
            _ if scope == Scope::Block => Arc::new(reach.narrowed()),
            Some(own) if reach.is_told() => Arc::new(reach.restated(|fact| match fact {
                Fact::Told { cluster, beyond } if cluster != own && (!beyond || scope == Scope::Cluster) => {
                    Some(Fact::Known(Grade::Narrow))
                }
                other => Some(other),
            })),
            Some(_) | None => Arc::clone(reach),
        }
    }

    /// The same, by the last operation that it takes.
    pub(super) fn acquired(&self, reach: &Arc<Reach>, scope: Scope) -> Arc<Reach> {
        let taken = self.taken(reach, scope);
        if taken.is_told() { Arc::new(taken.acquired()) } else { taken }
    }
}

impl GridOrder {
    /// The block is one of several of a cluster.
    pub(in crate::check) fn join_cluster(&mut self, blocks: Vec<u32>, has_scopes: bool) {
        self.cluster = Cluster { blocks, has_scopes };
    }

    /// Returns true if a block is this one, or of the same cluster.
    pub(in crate::check) fn is_near(&self, block: u32) -> bool {
        block == self.block || self.cluster.blocks.contains(&block)
    }

    /// A warp arrives at the barrier of the cluster; a relaxed arrival carries along its fence
    /// alone.
    pub(in crate::check) fn arrive_at_cluster(&mut self, warp: u32, releases: bool) {
        if !self.enabled {
            return;
        }
        let w = warp as usize;
        if !releases {
            let fenced = self.fenced[w].given(self.block, warp, u32::MAX);
            return join(&mut self.phase.released, fenced.as_ref());
        }
        let now = self.stamp();
        self.gathered[w] = now;
        self.phase.all = self.phase.all.max(self.all[w]).max(now);
        let extent = Extent { all: self.all[w], gathered: now, own: now, lanes: 0 };
        let reach = self.with_known((warp, u32::MAX), extent);
        join(&mut self.phase.released, Some(&reach));
    }

    /// The phase is over; what the block released. Warps that have exited count as having arrived.
    pub(in crate::check) fn end_phase(&mut self, exited: u32) -> Option<Arc<Reach>> {
        if !self.enabled {
            return None;
        }
        for warp in Lanes(exited) {
            self.arrive_at_cluster(warp, true);
        }
        self.past.all = std::mem::take(&mut self.phase.all);
        self.phase.released.take()
    }

    /// Starts a phase with the clock that the whole cluster released.
    pub(in crate::check) fn begin_phase(&mut self, released: Option<Arc<Reach>>) {
        self.past.released = released;
    }

    /// A warp has waited for the phase that is over.
    pub(in crate::check) fn learn_phase(&mut self, warp: u32) {
        if !self.enabled {
            return;
        }
        let w = warp as usize;
        self.known[w].share();
        let released = self.past.released.as_ref().map(|reach| self.cluster.acquired(reach, Scope::Cluster));
        self.learn(warp, u32::MAX, released.as_ref());
        self.learn_block(warp, self.past.all);
        self.busy |= 1 << warp;
    }
}
