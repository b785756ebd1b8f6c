//! Checker hooks of handlers and synchronising instructions.

use std::ops::Range;
use std::sync::Arc;

use warpfold_ptx::Scope;

use super::block::lanes_of;
use super::cluster::Place;
use super::lanes;
use super::machine::{Fault, Machine};
use super::op::Op;
use super::row::{LANES, mask_of};
use super::shared_checks::held;
use crate::asynchronous::thread_copies::Copy;
use crate::check::{
    Access as Checked, BlockCheck, ClusterMemory, FenceKind, Findings, Kind, LaunchCheck, Space, Strength, Values,
};
use crate::heap::Lies;
use crate::memory::Guard;
use crate::memory_ops::access::{self, Access, Direction, element_rows};
use crate::report::{FindingKind, Severity};

/// The checker of a worker.
#[derive(Debug)]
pub(crate) struct Checking {
    /// State shared by all blocks of the launch.
    pub launch: Arc<LaunchCheck>,
    /// State of the block that runs; swapped in with each block.
    pub block: BlockCheck,
    /// The findings so far.
    pub findings: Findings,
}

/// The scope for the checker: in a cluster of one block, cluster scope ends with the block.
fn scope(m: &Machine, scope: Scope) -> Scope {
    if scope == Scope::Cluster && m.cluster.peers.len() <= 1 { Scope::Block } else { scope }
}

fn strength(m: &Machine, access: Access) -> Strength {
    access.order().map_or(Strength::Weak, |order| Strength::Strong(order, scope(m, access.scope())))
}

pub(super) fn described(m: &Machine, op: &Op, access: Access, kind: Kind, mask: u32) -> Checked {
    Checked {
        instr: op.instruction,
        warp: m.warp,
        mask,
        bytes: access.bytes(),
        element: access.element().min(8),
        kind,
        strength: strength(m, access),
    }
}

/// Value that a lane stores: the bits of its element rows, one after the other.
pub(super) fn stored(m: &Machine, op: &Op, access: Access, lane: u32) -> u128 {
    let bits = access.element() * 8;
    let mut all = 0u128;
    for (k, row) in element_rows(op).into_iter().take(access.count() as usize).enumerate() {
        // SAFETY: the rows of a store fit its access.
        let value = unsafe {
            match bits {
                128 => (&*m.lanes::<u128>(row))[lane as usize],
                64 => u128::from((&*m.lanes::<u64>(row))[lane as usize]),
                _ => u128::from((&*m.lanes::<u32>(row))[lane as usize]),
            }
        };
        let value = if bits == 128 { value } else { value & ((1 << bits) - 1) };
        all |= value << (k as u32 * bits);
    }
    all
}

/// The lanes of `mask` whose addresses are in a range.
#[inline(always)]
fn lanes_in(range: Range<u64>, at: &[u64; LANES], mask: u32) -> u32 {
    let bytes = range.end - range.start;
    mask_of(|lane| at[lane].wrapping_sub(range.start) < bytes) & mask
}

impl Machine {
    /// Checks a warp's load or store in global memory, before its values move.
    #[inline(always)]
    pub(crate) fn check_global<D: Direction>(&mut self, op: &Op, access: Access, at: &[u64; LANES], mask: u32) {
        let kind = if D::LOAD { Kind::Read } else { Kind::Write };
        self.global_checked(op, access, kind, at, mask);
    }

    /// Checks a warp's atomic in global memory, before its values move.
    pub(crate) fn check_global_atomic(&mut self, op: &Op, access: Access, at: &[u64; LANES], mask: u32) {
        self.global_checked(op, access, Kind::Atomic, at, mask);
    }

    #[inline(always)]
    fn global_checked(&mut self, op: &Op, access: Access, kind: Kind, at: &[u64; LANES], mask: u32) {
        self.check_global_flights((op.instruction, kind), access.bytes(), at, mask);
        let Some(mut checking) = self.checking.take() else { return };
        let mut rest = mask;
        let mut guarded = None;
        while rest != 0 {
            // Lanes whose addresses are in one allocation are checked together.
            let first = at[rest.trailing_zeros() as usize];
            let Some(allocation) = self.global.allocation(first) else { break };
            let here = lanes_in(allocation.base..allocation.base + allocation.bytes, at, rest);
            rest &= !here;
            let guard = allocation.guard();
            if matches!(guard, Guard::Heap | Guard::Parts) || (guard != Guard::Open && kind != Kind::Read) {
                guarded = Some((guard, here));
            }
            let checked = described(self, op, access, kind, here);
            let held = |lane: u32| allocation.value(at[lane as usize], access.bytes());
            let stored = |lane: u32| stored(self, op, access, lane);
            let values = Values { stored: &stored, held: &held };
            let values = (kind == Kind::Write).then_some(&values);
            let shadow = allocation.shadow();
            let Checking { launch, block, findings } = &mut *checking;
            block.global_access(launch, shadow, &checked, at, values, findings);
            if access.is_strong() {
                block.release(launch, Space::Global, &checked, at);
            }
        }
        self.checking = Some(checking);
        if let Some((guard, lanes)) = guarded {
            self.check_guard(op, (access, kind), guard, at, lanes);
        }
    }

    /// Records a store to read-only memory, an access outside the memory ranges of a launch, or a
    /// use of heap memory that `malloc` did not return.
    #[cold]
    #[inline(never)]
    fn check_guard(&mut self, op: &Op, (access, made): (Access, Kind), guard: Guard, at: &[u64; LANES], lanes: u32) {
        let first = lanes.trailing_zeros();
        let (lane, kind, rule) = match (guard, self.heap.clone()) {
            (Guard::Open, _) | (Guard::Heap, None) => return,
            (Guard::Writes | Guard::Parts, _) => {
                let limited = self.limited.clone();
                let refusal = |lane: u32| limited.as_ref()?.refusal(at[lane as usize], u64::from(access.bytes()), made);
                match lanes_of(lanes).find_map(|lane| Some((lane, refusal(lane)?))) {
                    None => return,
                    Some((lane, rule)) => (lane, FindingKind::OutOfBounds, rule),
                }
            }
            (Guard::Constant, _) => {
                (first, FindingKind::OutOfBounds, "writes constant memory, which kernels may only read")
            }
            (Guard::ReadOnly, _) => {
                (first, FindingKind::OutOfBounds, "writes an argument that was passed to be read only")
            }
            (Guard::Heap, Some(heap)) => {
                let lies = |lane: u32| heap.lies(at[lane as usize], u64::from(access.bytes()));
                let bad = lanes_of(lanes).map(|lane| (lane, lies(lane))).find(|(_, lies)| *lies != Lies::Inside);
                match bad {
                    None => return,
                    Some((lane, Lies::Freed)) => {
                        (lane, FindingKind::UseAfterFree, "uses memory of the device heap that was freed")
                    }
                    Some((lane, _)) => {
                        (lane, FindingKind::OutOfBounds, "leaves the bytes that malloc gave in the device heap")
                    }
                }
            }
        };
        let address = at[lane as usize];
        let fault = Fault {
            kind,
            severity: Severity::Error,
            instruction: op.instruction,
            block: self.block,
            thread: self.thread(lane),
            address: Some((address, self.global.describe(address))),
            other: None,
            rule: rule.to_owned(),
        };
        self.fault(fault, false);
    }

    /// Applies the effects of a strong load or atomic, once its value is read.
    pub(crate) fn after_strong(
        &mut self,
        op: &Op,
        access: Access,
        kind: Kind,
        space: Space,
        at: &[u64; LANES],
        mask: u32,
    ) {
        let checked = described(self, op, access, kind, mask);
        let own = if space == Space::Shared { self.own_memory() } else { None };
        let Some(checking) = &mut self.checking else { return };
        match own {
            Some(own) => {
                let offsets = at.map(|offset| u32::try_from(offset).unwrap_or(u32::MAX));
                let Checking { launch, block, findings } = &mut **checking;
                block.observe_shared(&checked, &offsets);
                block.cluster_acquire(launch, &own, &checked, &offsets, findings);
            }
            None => {
                let Checking { launch, block, findings } = &mut **checking;
                if space == Space::Shared {
                    let offsets = at.map(|offset| u32::try_from(offset).unwrap_or(u32::MAX));
                    block.observe_shared(&checked, &offsets);
                }
                let mut rest = if space == Space::Global && kind != Kind::Write { mask } else { 0 };
                while rest != 0 {
                    let Some(allocation) = self.global.allocation(at[rest.trailing_zeros() as usize]) else { break };
                    let here = lanes_in(allocation.base..allocation.base + allocation.bytes, at, rest);
                    block.observe(launch, allocation.shadow(), &Checked { mask: here, ..checked }, at, findings);
                    rest &= !here;
                }
                block.acquire(launch, space, &checked, at);
            }
        }
    }

    /// The current block's shared memory for its cluster, if that has several blocks.
    pub(super) fn own_memory(&self) -> Option<ClusterMemory> {
        self.cluster.peers.get(self.cluster.rank as usize)?.check.clone()
    }

    /// Checks a warp's access to the shared memory of a peer, before its values move; the lanes are
    /// in bounds.
    pub(crate) fn check_peer(
        &mut self,
        op: &Op,
        access: Access,
        kind: Kind,
        (place, offsets): (Place, &[u32; LANES]),
        mask: u32,
    ) {
        let Some(mut checking) = self.checking.take() else { return };
        let checked = described(self, op, access, kind, mask);
        let held = |lane: u32| {
            // SAFETY: the lanes of the access are in bounds of the peer's shared memory.
            unsafe { held(place.shared, offsets[lane as usize], access.bytes()) }
        };
        let stored = |lane: u32| stored(self, op, access, lane);
        let values = Values { stored: &stored, held: &held };
        let values = (kind == Kind::Write).then_some(&values);
        let Checking { launch, block, findings } = &mut *checking;
        if let Some(memory) = self.cluster.peers[place.rank as usize].check.clone() {
            let used = block.peer_use(&memory, &checked, offsets, findings);
            block.cluster_access(launch, &memory, &checked, offsets, values, findings);
            let uses = &mut self.cluster.peers[place.rank as usize].uses;
            match uses.iter_mut().find(|before| before.is_by_warp_of(&used)) {
                Some(before) => *before = used,
                None => uses.push(used),
            }
        }
        self.checking = Some(checking);
    }

    /// Applies the effects of a strong load or atomic in a peer's shared memory, once its value is
    /// read.
    pub(crate) fn after_strong_peer(
        &mut self,
        op: &Op,
        access: Access,
        kind: Kind,
        (place, offsets): (Place, &[u32; LANES]),
        mask: u32,
    ) {
        let checked = described(self, op, access, kind, mask);
        let memory = self.cluster.peers[place.rank as usize].check.clone();
        if let (Some(checking), Some(memory)) = (&mut self.checking, memory) {
            let Checking { launch, block, findings } = &mut **checking;
            block.cluster_acquire(launch, &memory, &checked, offsets, findings);
        }
    }

    /// Notes that the current warp arrived at the barrier of the cluster.
    pub(crate) fn check_cluster_arrival(&mut self, releases: bool) {
        let warp = self.warp;
        if let Some(Checking { launch, block, .. }) = self.checking.as_deref_mut() {
            block.arrive_at_cluster(launch, warp, releases);
        }
    }

    /// Notes that the current warp has passed the barrier of the cluster.
    pub(crate) fn check_cluster_wait(&mut self) {
        let warp = self.warp;
        if let Some(checking) = &mut self.checking {
            checking.block.pass_cluster_barrier(warp);
        }
    }

    /// Checks that copies by `cp.async` may be issued; returns the lanes that may continue.
    pub(crate) fn check_copy_begins(
        &mut self,
        op: &Op,
        access: Access,
        to: &[u32; LANES],
        from: &[u64; LANES],
        source_bytes: &[u32; LANES],
        mask: u32,
    ) -> u32 {
        let span = lanes::span(to, mask);
        let end = span.highest.saturating_add(access.bytes());
        let is_in_one = self.shared_map.iter().any(|p| p.offset <= span.lowest && end <= p.offset + p.bytes);
        let mask = if is_in_one { mask } else { self.in_variables(op, access, to, mask) };
        let whole = mask_of(|lane| source_bytes[lane] == access.bytes()) & mask;
        if let Some(checking) = &mut self.checking {
            checking.block.is_copy = true;
        }
        self.begin_copy_of_unwritten();
        if whole != 0 {
            self.global_checked(op, access, Kind::Read, from, whole);
        }
        let byte = Access::new(1, 1, true, access::Extend::Zero, None, Scope::System);
        for n in (0..access.bytes()).take_while(|_| mask != whole) {
            let reads = mask_of(|lane| source_bytes[lane] > n) & mask & !whole;
            if reads != 0 {
                self.global_checked(op, byte, Kind::Read, &from.map(|a| a.wrapping_add(u64::from(n))), reads);
            }
        }
        let (checked, own) = (described(self, op, access, Kind::Write, mask), self.own_memory());
        if let Some(checking) = &mut self.checking {
            checking.block.is_copy = false;
            checking.findings.end_copy();
        }
        if let Some(Checking { launch, block, findings }) = self.checking.as_deref_mut()
            && mask != 0
        {
            block.copy_begins(&checked, to, findings);
            if let Some(own) = own {
                block.cluster_access(launch, &own, &checked, to, None, findings);
            }
        }
        mask
    }

    /// Notes that copies by `cp.async` have completed, at a wait of the issuing lanes.
    pub(crate) fn check_copy_lands(&mut self, copy: &Copy) {
        let Copy { instruction, mask, bytes, .. } = *copy;
        let warp = self.warp;
        let strength = Strength::Weak;
        let landed = Checked { instr: instruction, warp, mask, bytes, element: 0, kind: Kind::Write, strength };
        if let Some(checking) = &mut self.checking {
            checking.block.copy_lands(&landed, &copy.to);
        }
        self.leave_unwritten_by(copy);
    }

    /// Starts a copy of unwritten bytes: not an error, but its destination counts as unwritten.
    pub(super) fn begin_copy_of_unwritten(&mut self) {
        if let Some(checking) = &mut self.checking {
            checking.findings.hush(true);
        }
    }

    /// Marks bytes as unwritten that `cp.async` has copied from unwritten bytes.
    pub(super) fn leave_unwritten_by(&mut self, copy: &Copy) {
        if self.checking.as_ref().is_some_and(|checking| checking.findings.copies_unwritten()) {
            for lane in lanes_of(copy.mask).map(|lane| lane as usize) {
                self.leave_copied(copy.from[lane], copy.to[lane], copy.source_bytes[lane].min(copy.bytes));
            }
        }
    }

    /// Notes a fence of scope `imm`.
    pub(crate) fn check_fence(&mut self, imm: i64, kind: FenceKind, mask: u32) {
        let scope = match imm {
            0 => Scope::Block,
            1 => scope(self, Scope::Cluster),
            2 => Scope::Gpu,
            _ => Scope::System,
        };
        let warp = self.warp;
        if let Some(Checking { launch, block, .. }) = self.checking.as_deref_mut() {
            block.fence(launch, (warp, mask), scope, kind);
        }
    }

    /// Notes that lanes waited for the launches that theirs may overlap.
    pub(crate) fn check_dependencies_waited_for(&mut self, op: &Op, mask: u32) {
        let warp = self.warp;
        if let Some(Checking { launch, block, .. }) = self.checking.as_deref_mut() {
            block.wait_for_dependencies(launch, op.instruction, warp, mask);
        }
    }

    /// Notes that the block lets dependent launches begin.
    pub(crate) fn check_dependents_launched(&mut self) {
        if let Some(Checking { launch, block, .. }) = self.checking.as_deref_mut() {
            block.launch_dependents(launch);
        }
    }

    /// Notes that lanes synchronised: `members` are the masks they named, by lane.
    pub(crate) fn check_warp_sync(&mut self, members: &[u32; LANES], mask: u32, live: u32) {
        let warp = self.warp;
        let Some(checking) = &mut self.checking else { return };
        let mut rest = mask;
        while rest != 0 {
            let named = members[rest.trailing_zeros() as usize];
            checking.block.warp_sync(warp, named & live);
            for lane in 0..LANES {
                if members[lane] == named {
                    rest &= !(1 << lane);
                }
            }
        }
    }

    /// Notes that a warp arrived at a barrier.
    pub(crate) fn check_arrive(&mut self, barrier: u32) {
        let warp = self.warp;
        if let Some(checking) = &mut self.checking {
            checking.block.arrive(&checking.launch, barrier, warp);
        }
    }

    /// Notes that a barrier lets `receivers` go on; `gone` are warps that have ended and do not
    /// count.
    pub(crate) fn check_complete(&mut self, barrier: u32, receivers: u32, whole_block: bool, gone: u32) {
        if let Some(checking) = &mut self.checking {
            checking.block.complete(barrier, receivers, whole_block, gone);
        }
    }
}
