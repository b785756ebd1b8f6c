//! Checker hooks of mbarriers, bulk copies and proxy fences.

use warpfold_ptx::{Order, Scope};

use super::checking::Checking;
use super::cluster::Place;
use super::machine::Machine;
use super::op::Op;
use crate::asynchronous::thread_copies::{Arrival, Copy};
use crate::asynchronous::transfers::{self, Load, Store, Thread};
use crate::check::{Access as Checked, ClusterMemory, Kind, Side, Strength};

/// The access of one lane.
fn one_lane(instr: u32, by: (u32, u32), bytes: u32, kind: Kind, strength: Strength) -> Checked {
    Checked { instr, warp: by.0, mask: 1 << by.1, bytes, element: 0, kind, strength }
}

pub(super) fn side(instruction: u32, by: Thread) -> Side {
    let block = u32::try_from(by.block).unwrap_or(u32::MAX);
    Side { instr: instruction, block, warp: by.warp, lane: by.lane }
}

const STRONG: Strength = Strength::Strong(Order::Relaxed, Scope::Gpu);

impl Machine {
    /// Checker state of a block's shared memory, in a cluster of several blocks.
    pub(crate) fn cluster_memory(&self, rank: u32) -> Option<ClusterMemory> {
        self.cluster.peers.get(rank as usize)?.check.clone()
    }

    /// Tells the checker of an operation on a barrier's bytes; `begins` is true for its
    /// initialisation, `None` for its invalidation.
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

    /// Notes that a lane initialised a barrier.
    pub(crate) fn check_barrier_begins(&mut self, op: &Op, place: Place, lane: u32) {
        self.barrier_bytes(op, place, lane, Kind::Write, Strength::Weak);
        let access = one_lane(op.instruction, (self.warp, lane), 8, Kind::Write, Strength::Weak);
        if let Some(Checking { block, findings, .. }) = self.checking.as_deref_mut() {
            block.barrier_begins(&access, &[place.offset; 32], findings);
        }
    }

    /// Notes that a lane invalidated a barrier.
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
            block.arrive_at_mbarrier(launch, access.warp, access.mask, place.offset);
        } else if let Some(memory) = memory {
            block.release_to_cluster(launch, &access, &memory.addresses(&[place.offset; 32]));
        }
    }

    /// Notes that a barrier of the block advanced to the phase of this parity.
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
        let by = (self.warp, 1 << lane);
        if let Some(Checking { launch, block, .. }) = self.checking.as_deref_mut()
            && acquires
        {
            block.pass_mbarrier(launch, by, place.offset, parity);
        }
    }

    /// Checks that the current warp may begin an operation of the async proxy that reads units of
    /// 16 bytes of shared memory: the operands of a `wgmma`. Until
    /// [`check_operands_read`](Self::check_operands_read) no thread may overwrite them.
    pub(crate) fn check_operands_begin(&mut self, instruction: u32, units: &[u32]) {
        let warp = self.warp;
        if let Some(Checking { block, findings, .. }) = self.checking.as_deref_mut() {
            block.warp_reads_begin(instruction, warp, units, findings);
        }
    }

    /// Notes that such an operation has read its units, as the warp knows by its wait.
    pub(crate) fn check_operands_read(&mut self, instruction: u32, units: &[u32]) {
        let warp = self.warp;
        if let Some(Checking { block, findings, .. }) = self.checking.as_deref_mut() {
            block.warp_reads_end(instruction, warp, units, findings);
        }
    }

    /// Notes a `fence.proxy.async` for shared memory, global memory or both.
    pub(crate) fn check_proxy_fence(&mut self, shared: bool, global: bool) {
        let warp = self.warp;
        if let Some(Checking { launch, block, .. }) = self.checking.as_deref_mut() {
            block.proxy_fence(launch, warp, shared, global);
        }
    }

    /// The thread of a lane of the current warp at an instruction.
    fn here(&self, instruction: u32, lane: u32) -> Side {
        side(instruction, Thread { block: self.block, warp: self.warp, lane })
    }

    /// Checks that a lane may modify the tensor map at a device address, or use it for a copy.
    pub(crate) fn check_map(&mut self, instruction: u32, lane: u32, address: u64, kind: Kind) {
        let by = self.here(instruction, lane);
        let Some(allocation) = self.global.allocation(address) else { return };
        let Some(Checking { launch, block, findings }) = self.checking.as_deref_mut() else { return };
        for at in (address..address + 128).step_by(16) {
            let access = one_lane(instruction, (by.warp, lane), 16, kind, Strength::Weak);
            block.global_access(launch, allocation.shadow(), &access, &[at; 32], None, findings);
        }
        match kind {
            Kind::Read => block.map_used(launch, by, address, findings),
            Kind::Write | Kind::Atomic => block.map_changes(launch, by, address),
        }
    }

    /// Notes that a thread released the tensor maps that it modified.
    pub(crate) fn check_maps_released(&mut self) {
        if let Some(Checking { launch, block, .. }) = self.checking.as_deref_mut() {
            block.maps_released(launch);
        }
    }

    /// Notes that a thread acquired the tensor map at an address.
    pub(crate) fn check_map_acquired(&mut self, address: u64) {
        if let Some(Checking { launch, block, .. }) = self.checking.as_deref_mut() {
            block.map_acquired(launch, address);
        }
    }

    /// Checks a lane's access, other than a load or store, to an object of 16-byte units in the
    /// block's own shared memory.
    pub(crate) fn check_shared_object(&mut self, instruction: u32, lane: u32, (start, bytes): (u32, u32), kind: Kind) {
        let own = self.cluster_memory(self.cluster.rank);
        let warp = self.warp;
        let Some(Checking { launch, block, findings }) = self.checking.as_deref_mut() else { return };
        for at in (start..start + bytes).step_by(16) {
            let access = one_lane(instruction, (warp, lane), 16, kind, Strength::Weak);
            block.shared_access(&access, &[at; 32], None, findings);
            if let Some(own) = &own {
                block.cluster_access(launch, own, &access, &[at; 32], None, findings);
            }
        }
    }

    /// Checks a load's reads of global memory when it is issued.
    pub(crate) fn check_load_begins(&mut self, load: &Load) {
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
        if load.reduction.is_none() {
            self.begin_copy_of_unwritten();
        }
        self.check_global_pieces(load.instruction, load.by, &load.from, load.bytes, Kind::Read, true);
        if let Some(checking) = &mut self.checking {
            checking.findings.end_copy();
        }
    }

    /// Checks a load's writes to the shared memory of a block of the cluster when it is issued.
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
            // A thread's store is not an operation of the async proxy.
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

    /// Notes the copies into the current block that other blocks have issued since its last turn.
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
        if findings.copies_unwritten() && load.reduction.is_none() {
            transfers::pieces(&load.from, load.to, load.bytes, |piece| {
                if let Some(from) = piece.global {
                    self.leave_copied(from, piece.shared, piece.bytes);
                }
            });
        }
    }

    /// Notes that an arrival after copies by `cp.async` is complete.
    pub(crate) fn check_arrival_lands(&mut self, arrival: &Arrival, landed: &[Copy]) {
        for copy in landed {
            let Some(checking) = &mut self.checking else { return };
            let Copy { instruction, mask, bytes, .. } = *copy;
            let access = Checked {
                instr: instruction,
                warp: arrival.warp,
                mask,
                bytes,
                element: 0,
                kind: Kind::Write,
                strength: Strength::Weak,
            };
            checking.block.copy_arrives(&access, &copy.to, arrival.barrier);
            self.leave_unwritten_by(copy);
        }
    }

    /// Checks that a store may start to read. Unwritten source bytes are an error only for
    /// reductions.
    pub(crate) fn check_store_begins(&mut self, store: &Store) {
        let is_copy = store.reduction.is_none();
        let Some(Checking { block, findings, .. }) = self.checking.as_deref_mut() else { return };
        let range = (store.from, store.from + store.bytes);
        findings.hush(is_copy);
        block.proxy_begins(side(store.instruction, store.by), Kind::Read, range, findings);
        findings.end_copy();
        let kind = if store.reduction.is_some() { Kind::Atomic } else { Kind::Write };
        self.check_global_pieces(store.instruction, store.by, &store.to, store.bytes, kind, true);
    }

    /// Notes that a store has read its source, as its thread knows.
    pub(crate) fn check_store_has_read(&mut self, store: &mut Store) {
        let is_copy = store.reduction.is_none();
        let is_alone = self.cluster.peers.len() <= 1;
        let Some(Checking { block, findings, .. }) = self.checking.as_deref_mut() else { return };
        let range = (store.from, store.from + store.bytes);
        findings.hush(is_copy);
        block.proxy_has_read(side(store.instruction, store.by), range, findings);
        findings.end_copy();
        if is_copy && (findings.copies_unwritten() || !is_alone) {
            store.unwritten = self.unwritten_in(store.from, store.bytes);
        }
    }

    /// Checks a store's writes to global memory when they are performed.
    pub(crate) fn check_store_lands(&mut self, store: &Store) {
        let kind = if store.reduction.is_some() { Kind::Atomic } else { Kind::Write };
        self.check_global_pieces(store.instruction, store.by, &store.to, store.bytes, kind, false);
        if store.unwritten.is_empty() {
            return;
        }
        let by = side(store.instruction, store.by);
        transfers::pieces(&store.to, 0, store.bytes, |piece| {
            let Some(start) = piece.global else { return };
            for byte in store.unwritten.iter().filter_map(|byte| byte.checked_sub(piece.shared)) {
                if byte < piece.bytes {
                    self.leave_copied_out(by, start + u64::from(byte));
                }
            }
        });
    }

    /// Checks a lane's access to the pieces of a copy in global memory.
    fn check_global_pieces(
        &mut self,
        instr: u32,
        by: Thread,
        place: &transfers::Place,
        bytes: u32,
        kind: Kind,
        begins: bool,
    ) {
        if begins && self.checking.is_some() {
            self.check_flights_of_copy(instr, by, place, bytes, kind);
        }
        let Some(Checking { launch, block, findings }) = self.checking.as_deref_mut() else { return };
        let strength = if kind == Kind::Atomic { STRONG } else { Strength::Weak };
        let access = one_lane(instr, (by.warp, by.lane), 16, kind, strength);
        let global = &self.global;
        transfers::pieces(place, 0, bytes, |piece| {
            let Some(start) = piece.global else { return };
            let Some(allocation) = global.allocation(start) else { return };
            let range = (start, u64::from(piece.bytes));
            block.proxy_global_access(launch, allocation.shadow(), &access, range, findings, begins);
        });
    }
}
