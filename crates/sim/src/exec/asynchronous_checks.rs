//! Where mbarriers, bulk copies and proxy fences meet the checker.

use super::checking::Checking;
use super::cluster::Place;
use super::machine::Machine;
use super::op::Op;
use crate::asynchronous::thread_copies::{Arrival, Copy};
use crate::asynchronous::transfers::{self, Load, Store, Thread};
use crate::check::{Access as Checked, ClusterMemory, Kind, Scope, Semantics, Side, Strength};

/// The access of one lane.
fn one_lane(instr: u32, by: (u32, u32), bytes: u32, kind: Kind, strength: Strength) -> Checked {
    Checked { instr, warp: by.0, mask: 1 << by.1, bytes, kind, strength }
}

fn side(instruction: u32, by: Thread) -> Side {
    let block = u32::try_from(by.block).unwrap_or(u32::MAX);
    Side { instr: instruction, block, warp: by.warp, lane: by.lane }
}

const STRONG: Strength = Strength::Strong(Semantics::Relaxed, Scope::Gpu);

impl Machine {
    /// What the checker of a cluster of several blocks knows of a block's shared memory.
    fn cluster_memory(&self, rank: u32) -> Option<ClusterMemory> {
        self.cluster.peers.get(rank as usize)?.check.clone()
    }

    /// Tells the checker of an operation on a barrier's bytes; `begins` says that it is made, `None` that it ends.
    fn barrier_bytes(&mut self, op: &Op, place: Place, lane: u32, kind: Kind, strength: Strength) {
        let access = one_lane(op.instruction, (self.warp, lane), 8, kind, strength);
        let offsets = [place.offset; 32];
        let memory = self.cluster_memory(place.rank);
        let Some(Checking { launch, block, findings }) = self.checking.as_deref_mut() else { return };
        if place.is_own && strength != Strength::Weak {
            block.barrier_access(&access, &offsets, findings);
        }
        if let Some(memory) = memory {
            block.cluster_access(launch, &memory, &access, &offsets, None, findings);
        }
    }

    /// Notes that a lane made a barrier.
    pub(crate) fn check_barrier_begins(&mut self, op: &Op, place: Place, lane: u32) {
        self.barrier_bytes(op, place, lane, Kind::Write, Strength::Weak);
        let access = one_lane(op.instruction, (self.warp, lane), 8, Kind::Write, Strength::Weak);
        if let Some(Checking { block, findings, .. }) = self.checking.as_deref_mut() {
            block.barrier_begins(&access, &[place.offset; 32], findings);
        }
    }

    /// Notes that a lane ended a barrier.
    pub(crate) fn check_barrier_ends(&mut self, op: &Op, place: Place, lane: u32) {
        self.barrier_bytes(op, place, lane, Kind::Write, Strength::Weak);
        let access = one_lane(op.instruction, (self.warp, lane), 8, Kind::Write, Strength::Weak);
        if let Some(Checking { block, findings, .. }) = self.checking.as_deref_mut() {
            block.barrier_ends(&access, &[place.offset; 32], findings);
        }
    }

    /// Notes that a lane used a barrier, and whether it released something there.
    pub(crate) fn check_barrier_use(&mut self, op: &Op, (place, lane): (Place, u32), releases: bool) {
        if self.checking.is_none() {
            return;
        }
        self.barrier_bytes(op, place, lane, Kind::Atomic, STRONG);
        let access = one_lane(op.instruction, (self.warp, lane), 8, Kind::Atomic, STRONG);
        let memory = self.cluster_memory(place.rank);
        let Some(Checking { launch, block, .. }) = self.checking.as_deref_mut() else { return };
        if !releases {
            return;
        }
        if place.is_own {
            block.arrive_at_mbarrier(access.warp, access.mask, place.offset);
        }
        if let Some(memory) = memory {
            block.release_to_cluster(launch, &access, &memory.addresses(&[place.offset; 32]));
        }
    }

    /// Notes that a barrier of the block went on to the phase of this parity.
    pub(crate) fn check_phase_completes(&mut self, offset: u32, parity: bool) {
        if let Some(checking) = &mut self.checking {
            checking.block.complete_phase(offset, parity);
        }
    }

    /// Notes that a lane saw the phase before that of this parity complete.
    pub(crate) fn check_barrier_passed(&mut self, op: &Op, place: Place, lane: u32, parity: bool, acquires: bool) {
        if self.checking.is_none() {
            return;
        }
        self.barrier_bytes(op, place, lane, Kind::Atomic, STRONG);
        let access = one_lane(op.instruction, (self.warp, lane), 8, Kind::Atomic, STRONG);
        let memory = self.cluster_memory(place.rank);
        let Some(Checking { launch, block, .. }) = self.checking.as_deref_mut() else { return };
        if !acquires {
            return;
        }
        block.pass_mbarrier(access.warp, access.mask, place.offset, parity);
        if let Some(memory) = memory {
            block.acquire_from_cluster(launch, &access, &memory.addresses(&[place.offset; 32]));
        }
    }

    /// Checks that the current warp may begin an operation of the asynchronous proxy that reads units of 16 bytes of shared memory: the
    /// operands of a `wgmma`. Until [`check_operands_read`](Self::check_operands_read) nobody may overwrite them.
    pub(crate) fn check_operands_begin(&mut self, instruction: u32, units: &[u32]) {
        let warp = self.warp;
        if let Some(Checking { block, findings, .. }) = self.checking.as_deref_mut() {
            block.warp_reads_begin(instruction, warp, units, findings);
        }
    }

    /// Notes that such an operation has read the units that it began with, as the warp knows by its wait.
    pub(crate) fn check_operands_read(&mut self, instruction: u32, units: &[u32]) {
        let warp = self.warp;
        if let Some(Checking { block, findings, .. }) = self.checking.as_deref_mut() {
            block.warp_reads_end(instruction, warp, units, findings);
        }
    }

    /// Notes a `fence.proxy.async`.
    pub(crate) fn check_proxy_fence(&mut self) {
        let warp = self.warp;
        if let Some(checking) = &mut self.checking {
            checking.block.proxy_fence(warp);
        }
    }

    /// Checks what a load reads of global memory, as it begins.
    pub(crate) fn check_load_begins(&mut self, op: &Op, lane: u32, load: &Load) {
        if self.checking.is_none() {
            return;
        }
        if let transfers::Place::Shared(memory, offset) = load.from
            && std::ptr::eq(memory, self.shared)
        {
            let range = (offset, offset + load.bytes);
            let Some(Checking { block, findings, .. }) = self.checking.as_deref_mut() else { return };
            block.proxy_begins(side(load.instruction, load.by), Kind::Read, range, findings);
        }
        self.check_global_pieces(op.instruction, (self.warp, lane), &load.from, load.bytes, Kind::Read);
    }

    /// Checks what a load writes of the shared memory of a block of the cluster, as it begins.
    pub(crate) fn check_load_lands_in(&mut self, op: &Op, load: &Load, rank: u32) {
        if self.checking.is_none() {
            return;
        }
        let memory = self.cluster_memory(rank);
        let is_own = rank == self.cluster.rank;
        let Some(Checking { launch, block, findings }) = self.checking.as_deref_mut() else { return };
        let range = (load.to, load.to + load.bytes);
        let (kind, by) = (load.kind(), (load.by.warp, load.by.lane));
        let strength = if kind == Kind::Atomic { STRONG } else { Strength::Weak };
        if is_own && matches!(load.from, transfers::Place::Held(_)) {
            // A store of a thread is no operation of the other proxy.
            let access = one_lane(op.instruction, by, load.bytes, kind, strength);
            block.copy_begins(&access, &[load.to; 32], findings);
        } else if is_own {
            block.proxy_begins(side(load.instruction, load.by), kind, range, findings);
        }
        let Some(memory) = memory else { return };
        let bytes = load.bytes.min(16);
        for at in (range.0..range.1).step_by(bytes as usize) {
            let access = one_lane(op.instruction, by, bytes, kind, strength);
            block.cluster_access(launch, &memory, &access, &[at; 32], None, findings);
        }
        let access = one_lane(op.instruction, by, 8, Kind::Atomic, STRONG);
        block.release_to_cluster(launch, &access, &memory.addresses(&[load.barrier; 32]));
    }

    /// Notes the copies into the current block that others have begun since its last turn.
    pub(crate) fn check_arrivals_of_copies(&mut self) {
        let (rank, own) = (self.cluster.rank as usize, self.block);
        let Some(Checking { block, findings, .. }) = self.checking.as_deref_mut() else { return };
        for load in self.cluster.peers[rank].loads.iter_mut().filter(|load| !load.is_noted) {
            load.is_noted = true;
            if load.by.block != own {
                let range = (load.to, load.to + load.bytes);
                block.proxy_flies(side(load.instruction, load.by), load.kind(), range, findings);
            }
        }
    }

    /// Notes that a load has landed in the current block.
    pub(crate) fn check_load_lands(&mut self, load: &Load) {
        let own = self.shared;
        let Some(Checking { block, findings, .. }) = self.checking.as_deref_mut() else { return };
        let by = side(load.instruction, load.by);
        if let transfers::Place::Shared(memory, offset) = load.from
            && std::ptr::eq(memory, own)
        {
            block.proxy_has_read(by, (offset, offset + load.bytes), findings);
        }
        block.copy_lands_for(by, load.kind(), (load.to, load.to + load.bytes), load.barrier);
    }

    /// Notes that an arrival behind copies by `cp.async` counts.
    pub(crate) fn check_arrival_lands(&mut self, arrival: &Arrival, landed: &[Copy]) {
        let Some(checking) = &mut self.checking else { return };
        for copy in landed {
            let Copy { instruction, mask, bytes, .. } = *copy;
            let access = Checked {
                instr: instruction,
                warp: arrival.warp,
                mask,
                bytes,
                kind: Kind::Write,
                strength: Strength::Weak,
            };
            checking.block.copy_arrives(&access, &copy.to, arrival.barrier);
        }
    }

    /// Checks that a store may begin to read.
    pub(crate) fn check_store_begins(&mut self, op: &Op, lane: u32, store: &Store) {
        let Some(Checking { block, findings, .. }) = self.checking.as_deref_mut() else { return };
        let range = (store.from, store.from + store.bytes);
        block.proxy_begins(side(store.instruction, store.by), Kind::Read, range, findings);
        let kind = if store.reduction.is_some() { Kind::Atomic } else { Kind::Write };
        self.check_global_pieces(op.instruction, (self.warp, lane), &store.to, store.bytes, kind);
    }

    /// Notes that a store has read, and its thread knows it.
    pub(crate) fn check_store_has_read(&mut self, store: &Store) {
        let Some(Checking { block, findings, .. }) = self.checking.as_deref_mut() else { return };
        let range = (store.from, store.from + store.bytes);
        block.proxy_has_read(side(store.instruction, store.by), range, findings);
    }

    /// Checks what a store writes of global memory, as it does.
    pub(crate) fn check_store_lands(&mut self, store: &Store) {
        let kind = if store.reduction.is_some() { Kind::Atomic } else { Kind::Write };
        let by = (store.by.warp, store.by.lane);
        self.check_global_pieces(store.instruction, by, &store.to, store.bytes, kind);
    }

    /// Checks a lane's access to the pieces of a copy in global memory.
    fn check_global_pieces(&mut self, instr: u32, by: (u32, u32), place: &transfers::Place, bytes: u32, kind: Kind) {
        let Some(mut checking) = self.checking.take() else { return };
        let strength = if kind == Kind::Atomic { STRONG } else { Strength::Weak };
        let Checking { launch, block, findings } = &mut *checking;
        let global = &self.global;
        transfers::pieces(place, 0, bytes, |piece| {
            let Some(start) = piece.global else { return };
            let Some(allocation) = global.allocation(start) else { return };
            let (mut at, end) = (start, start + u64::from(piece.bytes));
            while at < end {
                // Whole words of 16 bytes go together as one lane each of a warp; what is left goes alone.
                let size = [16, 8, 4, 2, 1].into_iter().find(|&n| at.is_multiple_of(n) && at + n <= end).unwrap_or(1);
                let access = one_lane(instr, by, u32::try_from(size).expect("at most 16"), kind, strength);
                block.global_access(launch, allocation.shadow(), &access, &[at; 32], None, findings);
                at += size;
            }
        });
        self.checking = Some(checking);
    }
}
