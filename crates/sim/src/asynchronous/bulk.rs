//! Issue of bulk copies: `cp.async.bulk`, `cp.async.bulk.tensor`, `cp.reduce.async.bulk` (PTX ISA,
//! "Bulk copy", "Tensor copy").

use super::reduce::Reduction;
use super::tensor_box::TensorBox;
use super::transfers::{Load, Place, Store, Thread, pieces};
use crate::check::Kind;
use crate::exec::cluster::Place as Memory;
use crate::exec::machine::Machine;
use crate::exec::memory_map::{SHARED_WINDOW, Window, window};
use crate::exec::op::{LaneOp, NONE, Op};
use crate::exec::row::LANES;
use crate::memory_ops::access::address_fault;
use crate::memory_ops::pattern;
use crate::report::FindingKind;
use crate::tensor_map::{MapMode, TensorMap};

/// Dimensions of a tensor copy; 0 for linear copies. The other fields of [`Op::imm`] are above.
pub(super) const RANK: i64 = 7;
/// The coordinates are followed by offsets of a filter.
pub(super) const IM2COL: i64 = 1 << 3;
/// A mask of blocks follows.
pub(super) const MULTICAST: i64 = 1 << 4;
/// From shared to global memory.
pub(super) const STORE: i64 = 1 << 5;
/// From shared memory to a peer's.
pub(super) const TO_PEER: i64 = 1 << 6;
/// The stored box has no filter offsets, but is in im2col mode.
pub(super) const STORES_COLUMNS: i64 = 1 << 7;
/// Shift of the reduction's index: its place in the table of the code, plus one; 0 for none.
pub(super) const REDUCTION_SHIFT: i64 = 8;

/// Rows in the block of small operands: five coordinates, three offsets, the mask of blocks.
pub(super) const COORDINATES: u32 = 0;
pub(super) const OFFSETS: u32 = 5;
pub(super) const BLOCKS: u32 = 8;
pub(super) const SMALL_ROWS: u32 = 9;

/// A copy: `a` the address in shared memory that is copied to (or from, for stores), `b` the other
/// address or the tensor map, `c` the small operands, `d` the barrier, `dst2` the bytes.
pub(super) struct Begin;
impl LaneOp for Begin {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        // SAFETY: the decoder checked the operands.
        unsafe { begin(m, op, mask) }
    }
}

/// One lane's request.
struct Request {
    lane: u32,
    shared: u64,
    other: u64,
    barrier: u64,
    bytes: u32,
    coordinates: [i32; 5],
    offsets: [u16; 3],
    blocks: u32,
}

/// # Safety
/// As for a handler.
#[inline(never)]
#[allow(clippy::cast_possible_truncation, reason = "offsets and masks have 16 bits")]
unsafe fn begin(m: &mut Machine, op: &Op, mask: u32) {
    for lane in (0..32u32).filter(|lane| mask >> lane & 1 != 0) {
        let l = lane as usize;
        // SAFETY: passed on.
        let request = unsafe {
            let wide = |row: u32| if row == NONE { 0 } else { (&*m.lanes::<u64>(row))[l] };
            let narrow = |row: u32| if row == NONE { 0 } else { (&*m.lanes::<u32>(row))[l] };
            let small = |n: u32| if op.c == NONE { 0 } else { narrow(op.c + n) };
            Request {
                lane,
                shared: wide(op.a),
                other: wide(op.b),
                barrier: wide(op.d),
                bytes: narrow(op.dst2),
                coordinates: std::array::from_fn(|n| small(COORDINATES + n as u32).cast_signed()),
                offsets: std::array::from_fn(|n| small(OFFSETS + n as u32) as u16),
                blocks: small(BLOCKS) & 0xffff,
            }
        };
        // A request that breaks a rule has been reported, and is dropped.
        let _ = if op.imm & STORE != 0 { m.begin_store(op, &request) } else { m.begin_load(op, &request) };
    }
}

/// Marker of a request that broke a rule, which has been recorded.
pub(super) struct Refused;

impl Machine {
    pub(super) fn refuse<V>(
        &mut self,
        op: &Op,
        kind: FindingKind,
        lane: u32,
        address: u64,
        rule: String,
    ) -> Result<V, Refused> {
        address_fault(self, op, kind, lane, address, rule);
        Err(Refused)
    }

    /// The tensor map at a generic address.
    fn tensor_map(&mut self, op: &Op, lane: u32, address: u64) -> Result<TensorMap, Refused> {
        if !address.is_multiple_of(64) {
            let rule = "a tensor map must be aligned to 64 bytes".to_owned();
            return self.refuse(op, FindingKind::Misaligned, lane, address, rule);
        }
        let mut object = [0u8; 128];
        let found = match window(address) {
            (Window::Param, offset) => {
                let range = usize::try_from(offset).ok().and_then(|at| self.params.get(at..at + 128));
                range.is_some_and(|bytes| {
                    object.copy_from_slice(bytes);
                    true
                })
            }
            (Window::Global, _) => {
                self.check_map(op.instruction, lane, address, Kind::Read);
                super::bytes::load(&mut self.global, address, &mut object)
            }
            (Window::Shared | Window::Local, _) => false,
        };
        if !found {
            let rule = "a tensor map outside parameters and global memory".to_owned();
            return self.refuse(op, FindingKind::OutOfBounds, lane, address, rule);
        }
        TensorMap::decode(&object)
            .or_else(|e| self.refuse(op, FindingKind::OutOfBounds, lane, address, format!("no tensor map: {e}")))
    }

    /// The global side of a copy, and its number of bytes.
    fn global_side(&mut self, op: &Op, r: &Request) -> Result<(Place, u32), Refused> {
        let rank = (op.imm & RANK) as usize;
        if rank == 0 {
            let (address, bytes) = (r.other, r.bytes);
            if !address.is_multiple_of(16) || !bytes.is_multiple_of(16) {
                let rule =
                    format!("a bulk copy of {bytes} bytes from or to {address:#x}: both must be multiples of 16");
                return self.refuse(op, FindingKind::Misaligned, r.lane, address, rule);
            }
            self.in_global(op, r.lane, address, bytes)?;
            return Ok((Place::Linear(address), bytes));
        }
        let map = self.tensor_map(op, r.lane, r.other)?;
        let is_im2col = matches!(map.mode, MapMode::Im2col { .. });
        if map.dims.len() != rank || is_im2col != (op.imm & (IM2COL | STORES_COLUMNS) != 0) {
            let mode = if is_im2col { "im2col" } else { "tiled" };
            let rule = format!("a {rank}-dimensional copy by a {mode} map of {} dimensions", map.dims.len());
            return self.refuse(op, FindingKind::OutOfBounds, r.lane, r.other, rule);
        }
        let tensor = TensorBox { map, at: r.coordinates, offsets: r.offsets };
        let bytes = tensor.bytes();
        let mut outside = None;
        let global = &mut self.global;
        tensor.pieces(0, |piece| {
            if let Some(address) = piece.global
                && outside.is_none()
                && global.locate(address, piece.bytes.into()).is_none()
            {
                outside = Some((address, piece.bytes));
            }
        });
        if let Some((address, bytes)) = outside {
            let rule = format!("a tensor copy touches {bytes} bytes of its tensor outside every allocation");
            return self.refuse(op, FindingKind::OutOfBounds, r.lane, address, rule);
        }
        Ok((Place::Tensor(Box::new(tensor)), bytes))
    }

    pub(super) fn in_global(&mut self, op: &Op, lane: u32, address: u64, bytes: u32) -> Result<(), Refused> {
        if bytes == 0 || self.global.locate(address, bytes.into()).is_some() {
            return Ok(());
        }
        let (kind, what) = if self.global.is_freed(address) {
            (FindingKind::UseAfterFree, "in memory that was freed")
        } else {
            (FindingKind::OutOfBounds, "outside every allocation")
        };
        self.refuse(op, kind, lane, address, format!("an access of {bytes} bytes {what}"))
    }

    /// A range of shared memory of a block of the cluster.
    pub(super) fn shared_side(
        &mut self,
        op: &Op,
        lane: u32,
        address: u64,
        bytes: u32,
        align: u32,
    ) -> Result<Memory, Refused> {
        let shown = SHARED_WINDOW.wrapping_add(address);
        let Some(memory) = u32::try_from(address).ok().and_then(|address| self.place(address)) else {
            let rule = "an address in the shared memory of no block of the cluster".to_owned();
            return self.refuse(op, FindingKind::OutOfBounds, lane, shown, rule);
        };
        if !memory.offset.is_multiple_of(align) {
            let rule = format!("the shared memory of this instruction must be aligned to {align} bytes");
            return self.refuse(op, FindingKind::Misaligned, lane, shown, rule);
        }
        if memory.offset.checked_add(bytes).is_none_or(|end| end > self.shared_bytes) {
            let size = self.shared_bytes;
            let rule = format!("an access of {bytes} bytes outside the {size} bytes of shared memory");
            return self.refuse(op, FindingKind::OutOfBounds, lane, shown, rule);
        }
        let (start, end) = (memory.offset, memory.offset + bytes);
        let holds = |p: &crate::exec::code::Placed| p.offset <= start && end <= p.offset + p.bytes;
        if self.checked && bytes != 0 && !self.shared_map.iter().any(holds) {
            let rule = format!("an access of {bytes} bytes outside every shared variable");
            return self.refuse(op, FindingKind::OutOfBounds, lane, shown, rule);
        }
        Ok(memory)
    }

    fn begin_load(&mut self, op: &Op, r: &Request) -> Result<(), Refused> {
        let is_tensor = op.imm & RANK != 0;
        let (from, bytes) = if op.imm & TO_PEER != 0 {
            let memory = self.shared_side(op, r.lane, r.other, r.bytes, 16)?;
            if !r.bytes.is_multiple_of(16) {
                let rule = format!("a bulk copy of {} bytes: they must be a multiple of 16", r.bytes);
                return self.refuse(op, FindingKind::Misaligned, r.lane, SHARED_WINDOW + r.other, rule);
            }
            (Place::Shared(memory.shared, memory.offset), r.bytes)
        } else {
            self.global_side(op, r)?
        };
        let to = self.shared_side(op, r.lane, r.shared, bytes, if is_tensor { 128 } else { 16 })?;
        let barrier = self.barrier_beside(op, r.lane, r.barrier, to)?;
        let span = self.count_bulk(op, &from, bytes);
        let reduction = self.asynchronous_reduction(op, r.lane, &from)?;
        let load = Load { span, ..self.load(op, r.lane, (from, to.offset, bytes), reduction, barrier) };
        self.check_load_begins(&load);
        let ranks = if op.imm & MULTICAST != 0 { r.blocks } else { 1 << to.rank };
        for rank in (0..32).filter(|rank| ranks >> rank & 1 != 0) {
            let Some(peer) = self.cluster.peers.get(rank as usize).filter(|peer| !peer.exited) else {
                let rule = format!("a multicast to rank {rank} of the cluster, which has no such block any more");
                return self.refuse(op, FindingKind::UseAfterFree, r.lane, SHARED_WINDOW.wrapping_add(r.shared), rule);
            };
            debug_assert!(!peer.shared.is_null(), "a resident block has memory");
            self.send(op, load.clone(), rank);
        }
        self.land_early();
        Ok(())
    }

    /// The offset of a barrier, which must be in the destination block of the copy.
    pub(super) fn barrier_beside(&mut self, op: &Op, lane: u32, address: u64, to: Memory) -> Result<u32, Refused> {
        let Some(barrier) = self.barrier_place(op, address, lane) else { return Err(Refused) };
        if barrier.rank != to.rank {
            let rule = "the barrier of an asynchronous copy must lie in the block that the copy goes to".to_owned();
            return self.refuse(op, FindingKind::InvalidSync, lane, SHARED_WINDOW.wrapping_add(address), rule);
        }
        Ok(barrier.offset)
    }

    /// Issues a copy by a lane of the current warp.
    pub(super) fn load(
        &self,
        op: &Op,
        lane: u32,
        (from, to, bytes): (Place, u32, u32),
        reduction: Option<Reduction>,
        barrier: u32,
    ) -> Load {
        let by = Thread { block: self.block, warp: self.warp, lane };
        let (instruction, step) = (op.instruction, self.step());
        Load { instruction, by, step, from, to, bytes, reduction, span: (0, 0), barrier, is_noted: false }
    }

    /// Sends a copy to the shared memory of a block that has not exited.
    pub(super) fn send(&mut self, op: &Op, load: Load, rank: u32) {
        self.check_load_lands_in(op, &load, rank);
        let is_noted = rank == self.cluster.rank;
        self.cluster.peers[rank as usize].loads.push(Load { is_noted, ..load });
        if !is_noted {
            self.cluster.wake |= 1 << rank;
        }
    }

    fn begin_store(&mut self, op: &Op, r: &Request) -> Result<(), Refused> {
        let (to, bytes) = self.global_side(op, r)?;
        let is_tensor = op.imm & RANK != 0;
        let from = self.shared_side(op, r.lane, r.shared, bytes, if is_tensor { 128 } else { 16 })?;
        if !from.is_own {
            let rule = "a bulk store reads the shared memory of its own block only".to_owned();
            return self.refuse(op, FindingKind::OutOfBounds, r.lane, SHARED_WINDOW.wrapping_add(r.shared), rule);
        }
        let span = self.count_bulk(op, &to, bytes);
        let by = Thread { block: self.block, warp: self.warp, lane: r.lane };
        let reduction = self.asynchronous_reduction(op, r.lane, &to)?;
        let group = self.asynchronous.bulk_groups[self.warp as usize][r.lane as usize];
        let store = Store {
            instruction: op.instruction,
            by,
            step: self.step(),
            from: from.offset,
            to,
            bytes,
            reduction,
            span,
            group,
            read: None,
            unwritten: Vec::new(),
            is_early: false,
        };
        self.check_store_begins(&store);
        let mut store = store;
        if self.asynchronous.luck.one_in(2) {
            self.read_source(&mut store);
            store.is_early = true;
        }
        self.asynchronous.stores.push(store);
        Ok(())
    }

    /// The reduction that an instruction names, if any, for the elements of its tensor.
    pub(super) fn asynchronous_reduction(
        &mut self,
        op: &Op,
        lane: u32,
        place: &Place,
    ) -> Result<Option<Reduction>, Refused> {
        let index = usize::try_from(op.imm >> REDUCTION_SHIFT).unwrap_or(0);
        let Some(index) = index.checked_sub(1) else { return Ok(None) };
        let reduction = self.reductions[index];
        let Place::Tensor(tensor) = place else { return Ok(Some(reduction)) };
        let element = tensor.map.element;
        let address = tensor.map.address;
        match reduction.on(element) {
            Some(reduction) => Ok(Some(reduction)),
            None => {
                let rule = format!("there is no such reduction of a tensor of {element:?}");
                self.refuse(op, FindingKind::InvalidSync, lane, address, rule)
            }
        }
    }

    /// Counts requests, bytes and sectors of global memory; returns the first byte and the one past
    /// the last.
    fn count_bulk(&mut self, op: &Op, place: &Place, bytes: u32) -> (u64, u64) {
        let (mut moved, mut sectors) = (0u64, 0u64);
        let mut last = u64::MAX;
        let mut span = (u64::MAX, 0);
        pieces(place, 0, bytes, |piece| {
            if let Some(address) = piece.global {
                span = (address.min(span.0), span.1.max(address + u64::from(piece.bytes)));
                moved += u64::from(piece.bytes);
                sectors += pattern::range_sectors(address, address + u64::from(piece.bytes));
                // Chunks of a row may share a sector.
                sectors -= u64::from(address / 32 == last);
                last = (address + u64::from(piece.bytes) - 1) / 32;
                self.record_bulk(op, address, piece.bytes);
            }
        });
        let counters = &mut self.counters[op.instruction as usize];
        counters.global_requests += u64::from(!matches!(place, Place::Shared(..) | Place::Held(_)));
        counters.global_bytes += moved;
        counters.sectors += sectors;
        span
    }
}

/// `cp.async.bulk.commit_group`.
pub(super) struct Commit;
impl LaneOp for Commit {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, _: &Op, mask: u32) {
        let warp = m.warp as usize;
        for lane in (0..LANES).filter(|lane| mask >> lane & 1 != 0) {
            m.asynchronous.bulk_groups[warp][lane] += 1;
        }
    }
}

/// `cp.async.bulk.wait_group`: all but the last `imm` groups have been written, or at least read if
/// `dst2` is 1.
pub(super) struct Wait;
impl LaneOp for Wait {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        m.wait_stores(op, mask);
    }
}

impl Machine {
    fn wait_stores(&mut self, op: &Op, mask: u32) {
        let keep = u64::try_from(op.imm).unwrap_or(u64::MAX);
        let warp = self.warp;
        let groups = self.asynchronous.bulk_groups[warp as usize];
        let is_covered = |store: &Store| {
            let lane = store.by.lane;
            let committed = u64::from(groups[lane as usize]);
            store.by.warp == warp && mask >> lane & 1 != 0 && u64::from(store.group) + keep < committed
        };
        let mut stores = std::mem::take(&mut self.asynchronous.stores);
        for store in stores.iter_mut().filter(|store| is_covered(store)) {
            if store.read.is_none() || std::mem::take(&mut store.is_early) {
                self.read_source(store);
                self.check_store_has_read(store);
            }
        }
        if op.dst2 == 0 {
            let (done, rest): (Vec<_>, Vec<_>) = stores.into_iter().partition(|store| is_covered(store));
            stores = rest;
            for store in done {
                self.check_store_lands(&store);
                self.write_target(store);
            }
        }
        self.asynchronous.stores = stores;
    }

    /// Ends the block's copies: reports those without a wait, and completes stores.
    pub(crate) fn end_copies(&mut self) {
        for store in std::mem::take(&mut self.asynchronous.stores) {
            if store.read.is_none() || store.is_early {
                let rule = "the block exits while this copy may still be reading its shared memory".to_owned();
                self.abandoned(store.instruction, store.by, store.from, rule);
            }
            self.check_store_lands(&store);
            self.write_target(store);
        }
        let own = self.cluster.rank as usize;
        for load in std::mem::take(&mut self.cluster.peers[own].loads) {
            let rule = "the block exits before this copy into its shared memory has landed".to_owned();
            self.abandoned(load.instruction, load.by, load.to, rule);
        }
        self.asynchronous.arrivals.clear();
    }

    /// Records that nothing waited for a copy.
    fn abandoned(&mut self, instruction: u32, by: Thread, offset: u32, rule: String) {
        if !self.checked {
            return;
        }
        let place = (SHARED_WINDOW + u64::from(offset), self.describe_shared(u64::from(offset)));
        let fault = crate::exec::machine::Fault {
            kind: FindingKind::MissingWait,
            severity: crate::report::Severity::Error,
            instruction,
            block: by.block,
            thread: by.warp * 32 + by.lane,
            address: Some(place),
            other: None,
            rule,
        };
        self.fault(fault, false);
    }
}
