//! Rules of the checker, one sentence each: a rig drives blocks by hand, one step after the other.

mod clusters;
mod dependence;
mod fences;
mod global;
mod grid;
mod hidden;
mod inside;
mod lanes;
mod limits;
mod lines;
mod readers;
mod shared;
mod speed;
mod warps;

use warpfold_ptx::{Order, Scope};

use crate::report::Severity;

use super::*;

const ALL: u32 = u32::MAX;
/// Where the one allocation of the rig lies.
const BASE: u64 = 0x1000;
const BYTES: u64 = 1 << 16;

const RAW: Rule = Rule::ReadAfterWrite;
const WAR: Rule = Rule::WriteAfterRead;
const WAW: Rule = Rule::WriteAfterWrite;
const LOCKSTEP: Rule = Rule::WarpSynchronous;
const UNGATHERED: Rule = Rule::UngatheredLanes;

/// One warp access; lanes at consecutive words from 0 unless told otherwise.
#[derive(Clone)]
struct Step {
    access: Access,
    addresses: [u64; 32],
    values: Option<(fn(u32) -> u128, u128)>,
}

fn step(instr: u32, kind: Kind, strength: Strength) -> Step {
    let access = Access { instr, warp: 0, mask: ALL, bytes: 4, element: 4, kind, strength };
    Step { access, addresses: std::array::from_fn(|lane| lane as u64 * 4), values: None }
}

fn read(instr: u32) -> Step {
    step(instr, Kind::Read, Strength::Weak)
}

fn write(instr: u32) -> Step {
    step(instr, Kind::Write, Strength::Weak)
}

/// A relaxed atomic of device scope.
fn atomic(instr: u32) -> Step {
    step(instr, Kind::Atomic, Strength::Strong(Order::Relaxed, Scope::Gpu))
}

impl Step {
    fn warp(mut self, warp: u32) -> Self {
        self.access.warp = warp;
        self
    }

    fn lanes(mut self, mask: u32) -> Self {
        self.access.mask = mask;
        self
    }

    fn bytes(mut self, bytes: u32) -> Self {
        self.access.bytes = bytes;
        self.access.element = bytes.min(8);
        self
    }

    fn strong(mut self, semantics: Order, scope: Scope) -> Self {
        self.access.strength = Strength::Strong(semantics, scope);
        self
    }

    fn at(mut self, address: impl Fn(u64) -> u64) -> Self {
        self.addresses = std::array::from_fn(|lane| address(lane as u64));
        self
    }

    /// One lane at one address.
    fn one(self, lane: u32, address: u64) -> Self {
        self.lanes(1 << lane).at(|_| address)
    }

    /// What the lanes store, over what lies there.
    fn values(mut self, stored: fn(u32) -> u128, held: u128) -> Self {
        self.values = Some((stored, held));
        self
    }
}

/// A launch with some blocks resident at a time.
struct Rig {
    launch: LaunchCheck,
    blocks: Vec<BlockCheck>,
    shadow: GlobalShadow,
    findings: Findings,
}

impl Rig {
    /// Blocks with 4 KiB of unwritten shared memory each, and an allocation that the host has
    /// written.
    fn new(blocks: u32, threads: u32) -> Self {
        Self::of(DeviceCheck::default().begin(true, || {}), blocks, threads)
    }

    fn of(launch: LaunchCheck, blocks: u32, threads: u32) -> Self {
        let shadow = GlobalShadow::new(BASE, BYTES);
        shadow.mark_written(BASE, BYTES);
        let mut rig = Self { launch, blocks: Vec::new(), shadow, findings: Findings::default() };
        for block in 0..blocks {
            let mut check = BlockCheck::new(4096, 0);
            check.begin(&rig.launch, block, threads);
            rig.blocks.push(check);
        }
        rig
    }

    /// One block whose shared memory has been written and made known to all.
    fn filled(threads: u32) -> Self {
        let mut rig = Self::new(1, threads);
        rig.fill();
        rig
    }

    fn fill(&mut self) {
        for at in 0..8 {
            self.shared(&write(900).bytes(16).at(|lane| at * 512 + lane * 16));
        }
        self.sync(0);
    }

    fn shared(&mut self, step: &Step) {
        let Step { access, addresses, values } = step;
        self.blocks[0].release(&self.launch, Space::Shared, access, addresses);
        let held = |_| values.map_or(0, |(_, held)| held);
        let values = values.as_ref().map(|(stored, _)| Values { stored, held: &held });
        let offsets = &addresses.map(|at| at as u32);
        self.blocks[0].shared_access(access, offsets, values.as_ref(), &mut self.findings);
        self.blocks[0].observe_shared(access, offsets);
        self.blocks[0].acquire(&self.launch, Space::Shared, access, addresses);
    }

    /// Addresses count from the allocation's start.
    fn global(&mut self, block: usize, step: &Step) {
        let Step { access, addresses, values } = step;
        let addresses = &addresses.map(|at| at + BASE);
        self.blocks[block].release(&self.launch, Space::Global, access, addresses);
        let held = |_| values.map_or(0, |(_, held)| held);
        let values = values.as_ref().map(|(stored, _)| Values { stored, held: &held });
        self.blocks[block].global_access(
            &self.launch,
            &self.shadow,
            access,
            addresses,
            values.as_ref(),
            &mut self.findings,
        );
        self.blocks[block].observe(&self.launch, &self.shadow, access, addresses, &mut self.findings);
        self.blocks[block].acquire(&self.launch, Space::Global, access, addresses);
    }

    /// A barrier of the whole block.
    fn sync(&mut self, block: usize) {
        let warps = self.blocks[block].warps();
        self.barrier(block, 0, warps, warps);
    }

    /// A barrier at which `arrivals` arrive and `receivers` wait, masks of warps.
    fn barrier(&mut self, block: usize, barrier: u32, arrivals: u32, receivers: u32) {
        let whole = receivers == self.blocks[block].warps();
        for warp in access::Lanes(arrivals) {
            self.blocks[block].arrive(&self.launch, barrier, warp);
        }
        self.blocks[block].complete(barrier, receivers, whole, 0);
    }

    fn warp_sync(&mut self, warp: u32, mask: u32) {
        self.blocks[0].warp_sync(warp, mask);
    }

    /// A warp sync by every warp.
    fn gather(&mut self, block: usize) {
        for warp in access::Lanes(self.blocks[block].warps()) {
            self.blocks[block].warp_sync(warp, ALL);
        }
    }

    fn fence(&mut self, block: usize, warp: u32, scope: Scope) {
        self.blocks[block].fence(&self.launch, (warp, ALL), scope, FenceKind::Both);
    }

    /// The rules broken so far, by pair of instructions.
    #[track_caller]
    fn finds(&self, expected: &[Rule]) {
        let found: Vec<_> = self.findings.iter().map(|found| found.rule).collect();
        assert_eq!(found, expected, "{:#?}", self.findings);
    }
}
