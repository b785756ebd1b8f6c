//! Interface to the interpreter: one [`BlockCheck`] per resident block, told of accesses and of
//! synchronisation.

use warpfold_ptx::Scope;

use crate::check::access::{Access, FenceKind, Kind, Lanes, Pattern, Space, Strength, Values};
use crate::check::async_proxy::flight::{Flight, InFlight};
use crate::check::findings::{Findings, Found, Side};
use crate::check::global::cluster::address_in_block;
use crate::check::global::dependence::Waits;
use crate::check::global::judge::Visit;
use crate::check::global::numbers::BlockRecords;
use crate::check::global::records::LaunchCheck;
use crate::check::global::shadow::GlobalShadow;
use crate::check::order::block::BlockOrder;
use crate::check::order::grid::GridOrder;
use crate::check::shared::lines::WarpAccess;
use crate::check::shared::shadow::SharedShadow;

/// The checker of one resident block. Serves any number of blocks of one launch, one after the
/// other.
///
/// The order of calls: [`begin`](Self::begin); then for each memory instruction the access, before
/// its values move. A strong write or atomic then calls [`release`](Self::release), before its
/// value can be seen, a strong read or atomic calls [`acquire`](Self::acquire) once its value is
/// read.
#[derive(Debug)]
pub(crate) struct BlockCheck {
    pub(super) block: u32,
    pub(super) order: BlockOrder,
    pub(super) shared: SharedShadow,
    pub(super) flights: InFlight,
    pub(super) grid: GridOrder,
    records: BlockRecords,
    pub(super) waits: Waits,
    /// True if some warp has passed the barrier of the cluster, so that all of its blocks have
    /// begun.
    pub(super) peers_have_begun: bool,
    /// True while the accesses to global memory are those of a thread's copies, which end at waits.
    pub(crate) is_copy: bool,
    /// The strong write in progress: its instruction, its warp, and the lanes seen so far.
    announcing: Option<(u32, u32, u32)>,
    /// True if anything was released at a location of shared memory.
    has_shared_flags: bool,
}

impl BlockCheck {
    /// Makes a checker for blocks with `shared_bytes` bytes of shared memory, the first `reserved`
    /// of which belong to the system.
    pub(crate) fn new(shared_bytes: u32, reserved: u32) -> Self {
        Self {
            block: 0,
            order: BlockOrder::new(),
            shared: SharedShadow::new(shared_bytes, reserved),
            flights: InFlight::default(),
            grid: GridOrder::new(),
            records: BlockRecords::new(),
            waits: Waits::default(),
            peers_have_begun: false,
            is_copy: false,
            announcing: None,
            has_shared_flags: false,
        }
    }

    /// Mask of the current block's warps.
    #[cfg(test)]
    pub(crate) const fn warps(&self) -> u32 {
        self.order.warps()
    }

    /// Starts the block with the linear index `block`: shared memory is uninitialised, and nothing
    /// is ordered.
    pub(crate) fn begin(&mut self, launch: &LaunchCheck, block: u32, threads: u32) {
        self.block = block;
        self.order.begin(threads);
        self.shared.begin(false);
        self.flights.begin();
        self.grid.begin(block, threads, launch.orders_blocks);
        self.records.begin(launch);
        self.waits.begin();
        self.peers_have_begun = false;
        self.has_shared_flags = false;
        launch.locations.settle();
    }

    /// The block that has begun has peers, with which it is `blocks`; they may initialise its shared
    /// memory, too: [`ClusterMemory`](super::ClusterMemory) knows what is written.
    pub(crate) fn join_cluster(&mut self, launch: &LaunchCheck, blocks: &[u32]) {
        self.shared.begin(true);
        self.grid.join_cluster(blocks.to_vec(), launch.has_cluster_scope);
    }

    /// Returns true if nothing has written a byte of the block's shared memory.
    pub(crate) fn is_shared_unwritten(&self, offset: u32) -> bool {
        self.shared.is_unwritten(offset)
    }

    /// Marks a byte of shared memory as unwritten, since the value stored there came from an
    /// unwritten byte.
    pub(crate) fn leave_shared_unwritten(&mut self, offset: u32) {
        self.shared.leave_unwritten(offset);
    }

    /// A warp accesses shared memory at byte offsets that are in bounds.
    #[inline(always)]
    pub(crate) fn shared_access(
        &mut self,
        access: &Access,
        addresses: &[u32; 32],
        values: Option<&Values<'_>>,
        findings: &mut Findings,
    ) {
        let pattern = Pattern::of(access.mask, addresses, access.bytes);
        self.shared_access_of(access, (addresses, pattern), values, findings);
    }

    /// Like [`shared_access`](Self::shared_access), with a known pattern of the addresses.
    #[inline(always)]
    pub(crate) fn shared_access_of(
        &mut self,
        access: &Access,
        (addresses, pattern): (&[u32; 32], Pattern),
        values: Option<&Values<'_>>,
        findings: &mut Findings,
    ) {
        // A read that conflicts with a copy needs no second finding against the copy's record.
        if !self.flights.is_empty() && self.collide(access, addresses, findings) && access.kind == Kind::Read {
            return;
        }
        self.shared.access_of(&mut self.order, self.block, access, (addresses, pattern), values, findings);
        if pattern == (Pattern::Contiguous { lanes: 32 }) && access.bytes == 4 && self.flights.is_empty() {
            self.shared.gather(addresses[0]);
        }
    }

    /// A warp makes a plain access to words; `false`, with nothing done, where
    /// [`shared_access`](Self::shared_access) has to look at it.
    #[inline(always)]
    pub(crate) fn line_access(&mut self, access: WarpAccess) -> bool {
        self.flights.is_empty() && self.shared.line_access(&mut self.order, access)
    }

    #[inline(never)]
    fn collide(&mut self, access: &Access, addresses: &[u32; 32], findings: &mut Findings) -> bool {
        let collision = self.flights.first_collision(access, addresses);
        if let Some((rule, flight, lane)) = collision {
            let this = Side { instr: access.instr, block: self.block, warp: access.warp, lane };
            let address = u64::from(addresses[lane as usize].max(flight.start));
            let other = Some(flight.side);
            findings.add(Found { rule, space: Space::Shared, address, this, other, count: 1 });
        }
        collision.is_some()
    }

    /// Starts the copies of a warp's lanes that will write shared memory; called before the access
    /// of the instruction.
    pub(crate) fn copy_begins(&mut self, access: &Access, addresses: &[u32; 32], findings: &mut Findings) {
        self.shared_access(access, addresses, None, findings);
        for lane in Lanes(access.mask) {
            let start = addresses[lane as usize];
            let side = Side { instr: access.instr, block: self.block, warp: access.warp, lane };
            let flight = Flight { start, end: start + access.bytes, hold: access.kind.into(), side };
            self.flights.add(flight);
        }
    }

    /// Ends copies that have landed; their lanes acquire them.
    pub(crate) fn copy_lands(&mut self, access: &Access, addresses: &[u32; 32]) {
        for lane in Lanes(access.mask) {
            let start = addresses[lane as usize];
            self.flights.remove(start, start + access.bytes, access.kind.into(), access.instr);
        }
        self.shared.landed(&mut self.order, access, addresses);
    }

    /// A warp accesses global memory at device addresses in bounds of the one allocation that
    /// `shadow` belongs to.
    #[inline(always)]
    pub(crate) fn global_access(
        &mut self,
        launch: &LaunchCheck,
        shadow: &GlobalShadow,
        access: &Access,
        addresses: &[u64; 32],
        values: Option<&Values<'_>>,
        findings: &mut Findings,
    ) {
        if access.is_strong() {
            self.begin_strong(launch, access);
            if access.kind != Kind::Write && self.grid.is_behind_fence_sc(access.warp) {
                for_each_location(access.mask, addresses, |_, address| {
                    self.grid.read_behind_fence_sc(&launch.locations, access.warp, address);
                });
            }
        }
        if launch.overlap.concerns(access, &self.waits) {
            self.judge_early(launch, shadow, access, (addresses, access.bytes.into()), findings);
        }
        let is_copy = self.is_copy;
        let (order, grid, records, block) = (&mut self.order, &mut self.grid, &mut self.records, self.block);
        let by_proxy = false;
        Visit { launch, order, grid, records, shadow, access, addresses, values, findings, block, by_proxy, is_copy }
            .run();
    }

    /// A lane's bulk copy accesses `bytes` bytes of one allocation; `begins` says that it does not
    /// end, but begin.
    pub(crate) fn proxy_global_access(
        &mut self,
        launch: &LaunchCheck,
        shadow: &GlobalShadow,
        access: &Access,
        (start, bytes): (u64, u64),
        findings: &mut Findings,
        begins: bool,
    ) {
        if access.is_strong() {
            self.begin_strong(launch, access);
        }
        if begins && launch.overlap.concerns(access, &self.waits) {
            self.judge_early(launch, shadow, access, (&[start; 32], bytes), findings);
        }
        let (order, grid, records, block) = (&mut self.order, &mut self.grid, &mut self.records, self.block);
        let (addresses, values, by_proxy, is_copy) = (&[start; 32], None, true, true);
        let mut visit = Visit {
            launch,
            order,
            grid,
            records,
            shadow,
            access,
            addresses,
            values,
            findings,
            block,
            by_proxy,
            is_copy,
        };
        if begins {
            visit.judge_proxy(start, bytes);
        }
        let (mut at, end) = (start, start + bytes);
        while at < end {
            // Words of 16 bytes as far as that goes.
            let size = [16, 8, 4, 2, 1].into_iter().find(|&n| at.is_multiple_of(n) && at + n <= end).unwrap_or(1);
            let access = Access { bytes: size as u32, ..*access };
            Visit {
                access: &access,
                addresses: &[at; 32],
                order: visit.order,
                grid: visit.grid,
                records: visit.records,
                findings: visit.findings,
                ..visit
            }
            .run();
            at += size;
        }
    }

    /// Starts a strong access, so that those before are done, except for other lanes of one that
    /// accesses several allocations.
    #[inline(never)]
    fn begin_strong(&mut self, launch: &LaunchCheck, access: &Access) {
        let Access { instr, warp, mask, .. } = *access;
        if !self.announcing.is_some_and(|(i, w, lanes)| (i, w) == (instr, warp) && lanes & mask == 0) {
            launch.locations.settle();
            self.announcing = None;
        }
        if access.kind != Kind::Write {
            self.grid.begin_read(&launch.locations);
        }
    }

    /// Called before a strong write or atomic stores; does nothing for other accesses.
    pub(crate) fn release(&mut self, launch: &LaunchCheck, space: Space, access: &Access, addresses: &[u64; 32]) {
        let Access { instr, warp, mask, kind, .. } = *access;
        let Strength::Strong(semantics, scope) = access.strength else { return };
        let fenced = self.order.has_fenced(warp) || self.grid.has_fenced(warp);
        let replaces = kind == Kind::Write && (self.order.has_released() || self.grid.has_released(&launch.locations));
        let overtakes = self.order.is_near_fence_sc(warp);
        let overtakes_others = space == Space::Global && launch.locations.has_fence_sc;
        if kind == Kind::Read || !(semantics.releases() || fenced || replaces || overtakes || overtakes_others) {
            return;
        }
        if space == Space::Global {
            let before = self.announcing.map_or(0, |(.., lanes)| lanes);
            self.announcing = Some((instr, warp, before | mask));
        }
        for_each_location(mask, addresses, |lanes, address| {
            self.order.release(warp, lanes, space.key(address), kind, semantics);
            let (at, scope) = self.between_blocks(space, address, scope);
            self.grid.release(&launch.locations, (warp, lanes, at), kind, semantics, scope);
            if overtakes_others {
                self.grid.write_near_fence_sc(&launch.locations, warp, address);
            }
            self.has_shared_flags |= space == Space::Shared;
        });
    }

    /// Called after a strong read or atomic has read; does nothing for other accesses.
    pub(crate) fn acquire(&mut self, launch: &LaunchCheck, space: Space, access: &Access, addresses: &[u64; 32]) {
        let Strength::Strong(semantics, scope) = access.strength else { return };
        if space == Space::Global {
            launch.locations.settle();
            self.announcing = None;
            if access.kind != Kind::Write && !launch.overlap.is_nothing() {
                self.learn_of_earlier_launches(launch, access.mask, addresses);
            }
        }
        if access.kind == Kind::Read && space == Space::Global && launch.locations.has_fence_sc {
            for_each_location(access.mask, addresses, |_, address| {
                self.grid.read_near_fence_sc(&launch.locations, access.warp, address);
            });
        }
        let inside = self.order.has_released() || self.order.is_near_fence_sc(access.warp);
        let between = (space == Space::Global || self.has_shared_flags) && self.grid.has_released(&launch.locations);
        if between && space == Space::Shared {
            launch.locations.settle();
            self.grid.begin_read(&launch.locations);
        }
        if access.kind != Kind::Write && (inside || between) {
            for_each_location(access.mask, addresses, |lanes, address| {
                if inside {
                    self.order.acquire(access.warp, lanes, space.key(address), semantics);
                }
                if between {
                    let (at, scope) = self.between_blocks(space, address, scope);
                    self.grid.acquire(&launch.locations, (access.warp, lanes, at), semantics, scope);
                }
            });
        }
        self.grid.end_read();
    }

    /// The key of a location in the order between blocks, and the effective scope there: only
    /// threads of the block access its own shared memory.
    fn between_blocks(&self, space: Space, address: u64, scope: Scope) -> (u64, Scope) {
        match space {
            Space::Global => (address, scope),
            Space::Shared => (address_in_block(self.block, address), Scope::Gpu),
        }
    }

    /// A strong read or atomic of global memory has read in the allocation that `shadow` belongs
    /// to: what follows comes after the writes that it has observed.
    pub(crate) fn observe(
        &mut self,
        launch: &LaunchCheck,
        shadow: &GlobalShadow,
        access: &Access,
        addresses: &[u64; 32],
        findings: &mut Findings,
    ) {
        if access.kind != Kind::Write && access.is_strong_between_blocks() {
            let (order, grid, records, block) = (&mut self.order, &mut self.grid, &mut self.records, self.block);
            let (values, by_proxy, is_copy) = (None, false, false);
            Visit {
                launch,
                order,
                grid,
                records,
                shadow,
                access,
                addresses,
                values,
                findings,
                block,
                by_proxy,
                is_copy,
            }
            .observe();
        }
    }

    /// Like [`observe`](Self::observe), for shared memory.
    pub(crate) fn observe_shared(&mut self, access: &Access, offsets: &[u32; 32]) {
        if access.kind == Kind::Read && access.is_strong() {
            self.shared.observe(&mut self.order, access, offsets);
        }
    }

    /// `fence` or `membar` by `mask` lanes of a warp.
    pub(crate) fn fence(&mut self, launch: &LaunchCheck, (warp, mask): (u32, u32), scope: Scope, kind: FenceKind) {
        if kind == FenceKind::Sequential {
            self.order.fence_sc(warp, mask);
        } else {
            self.order.fence(warp, mask, kind);
        }
        self.grid.fence(&launch.locations, (warp, mask), scope, kind);
    }

    /// A `.sync` instruction of a warp (`bar.warp.sync`, `shfl.sync`, `vote.sync`, …) by the lanes
    /// of `mask`.
    pub(crate) fn warp_sync(&mut self, warp: u32, mask: u32) {
        self.order.warp_sync(warp, mask);
        self.grid.warp_sync(warp, mask);
    }

    /// Arrival of a warp at a block barrier, with a wait (`bar.sync`, `bar.red`) or without
    /// (`bar.arrive`).
    pub(crate) fn arrive(&mut self, launch: &LaunchCheck, barrier: u32, warp: u32) {
        self.grid.look_at_writes(&launch.locations, warp);
        self.order.arrive(barrier, warp);
        self.grid.arrive(barrier, warp);
    }

    /// A block barrier has all its arrivals: the warps in the mask `receivers` go on. `whole_block`
    /// says that these are all warps of the block that have not exited; `gone` are those that have,
    /// where the barrier has a count and so does not stand for them.
    pub(crate) fn complete(&mut self, barrier: u32, receivers: u32, whole_block: bool, gone: u32) {
        self.order.complete(barrier, receivers, whole_block, gone);
        self.grid.complete(barrier, receivers);
    }
}

/// Calls once for each distinct address, with the lanes that access it.
pub(super) fn for_each_location(mask: u32, addresses: &[u64; 32], mut call: impl FnMut(u32, u64)) {
    let mut rest = mask;
    while rest != 0 {
        let address = addresses[rest.trailing_zeros() as usize];
        let mut lanes = 0;
        for (lane, &other) in addresses.iter().enumerate() {
            lanes |= u32::from(other == address) << lane;
        }
        call(lanes & rest, address);
        rest &= !lanes;
    }
}
