//! Undefined bits in loads and stores.

use std::marker::PhantomData;

use super::{Mark, Origin, Place, rows_of};
use crate::check::{Found, HandedOn, Side, Space as Checked};
use crate::exec::block::lanes_of;
use crate::exec::code::CallSlot;
use crate::exec::machine::Machine;
use crate::exec::memory_map::{Window, tagged, window};
use crate::exec::op::{LaneOp, NONE, Op};
use crate::exec::row::LANES;
use crate::memory_ops::access::{Access, Space, addresses, element_rows};

/// Location of a lane's access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Where {
    Global(u64),
    /// Shared memory of the block.
    Shared(u32),
    /// Shared memory of the block of the cluster with this rank.
    Peer(u32, u32),
    Local(u32),
    /// A location that is not tracked.
    Elsewhere,
}

impl Where {
    fn of(space: Space, address: u64, own: u32) -> Self {
        let narrow = |offset: u64| u32::try_from(offset).ok();
        let shared = |offset| match narrow(offset).map(|offset| tagged(offset, own)) {
            Some((Some(rank), offset)) => Self::Peer(rank, offset),
            Some((None, offset)) => Self::Shared(offset),
            None => Self::Elsewhere,
        };
        let local = |offset| narrow(offset).map_or(Self::Elsewhere, Self::Local);
        match space {
            Space::Global => Self::Global(address),
            Space::Shared | Space::Cluster => shared(address),
            Space::Local => local(address),
            Space::Param => Self::Elsewhere,
            Space::Generic => match window(address) {
                (Window::Global, _) => Self::Global(address),
                (Window::Shared, offset) => shared(offset),
                (Window::Local, offset) => local(offset),
                (Window::Param, _) => Self::Elsewhere,
            },
        }
    }

    /// The location `bytes` bytes further on.
    fn plus(self, bytes: u32) -> Self {
        match self {
            Self::Global(address) => Self::Global(address.wrapping_add(bytes.into())),
            Self::Shared(offset) => Self::Shared(offset.wrapping_add(bytes)),
            Self::Peer(rank, offset) => Self::Peer(rank, offset.wrapping_add(bytes)),
            Self::Local(offset) => Self::Local(offset.wrapping_add(bytes)),
            Self::Elsewhere => Self::Elsewhere,
        }
    }
}

/// The lanes that access local memory.
pub(super) fn local_lanes(at: &[Where; LANES]) -> u32 {
    (0..LANES).filter(|&lane| matches!(at[lane], Where::Local(_))).fold(0, |all, lane| all | 1 << lane)
}

/// A load in one space that marks values from uninitialised bytes, unless its access is
/// [plain](Access::plain).
pub(crate) struct Watched<L, S>(PhantomData<(L, S)>);
/// State space of a watched load.
pub(crate) trait Watches: 'static {
    /// The space.
    const SPACE: Space;
}
/// `.global`.
pub(crate) struct InGlobal;
impl Watches for InGlobal {
    const SPACE: Space = Space::Global;
}
/// `.shared`.
pub(crate) struct InShared;
impl Watches for InShared {
    const SPACE: Space = Space::Shared;
}
/// `.shared::cluster`.
pub(crate) struct InCluster;
impl Watches for InCluster {
    const SPACE: Space = Space::Cluster;
}
/// Any space.
pub(crate) struct InAny;
impl Watches for InAny {
    const SPACE: Space = Space::Generic;
}

impl<L: LaneOp, S: Watches> LaneOp for Watched<L, S> {
    #[inline(always)]
    unsafe fn run(m: &mut Machine, op: &Op, mask: u32) {
        let access = Access(op.dst2);
        // The load may overwrite its address.
        // SAFETY: the decoder checked the operands.
        let at = unsafe { addresses(m, op, access.wide()) };
        if let Some(checking) = m.checking.as_mut().filter(|_| access.is_watched()) {
            checking.findings.hush(true);
            checking.findings.hold_races();
        }
        // SAFETY: passed on.
        unsafe { L::run(m, op, mask) };
        let Some(checking) = m.checking.as_mut().filter(|_| access.is_watched()) else { return };
        let (is_unwritten, raced) = (checking.findings.hush(false), checking.findings.take_raced());
        if is_unwritten || !raced.is_empty() {
            m.mark_load(op, mask, S::SPACE, &at, &raced);
        }
    }
}

impl Machine {
    /// Marks the values that a load got from uninitialised bytes, or from bytes in a race.
    #[cold]
    #[inline(never)]
    fn mark_load(&mut self, op: &Op, mask: u32, space: Space, at: &[u64; LANES], raced: &[Found]) {
        let access = Access(op.dst2);
        let (size, rows) = (access.element(), rows_of(access.element()));
        let mut is_marked = vec![false; raced.len()];
        for (n, row) in (0u32..).zip(element_rows(op)).take(access.count() as usize) {
            let mut mark = Mark::none(origin(op.instruction, Where::Global(0), 0));
            for lane in lanes_of(mask) {
                let start = Where::of(space, at[lane as usize], self.cluster.rank).plus(n * size);
                let missing = (0..size).filter(|&byte| self.is_unwritten(start.plus(byte)));
                let bits = missing.fold(0u128, |all, byte| all | 0xff << (byte * 8));
                mark.bits[lane as usize] = if size < 4 { access.extend(bits as u32).into() } else { bits };
                let first = start.plus(bits.trailing_zeros() / 8 % size.max(1));
                mark.origin[lane as usize] = origin(op.instruction, first, lane);
                // Races are judged word by word.
                let Origin { space, address, .. } = origin(op.instruction, start, lane);
                let words = address / 4..(address + u64::from(size)).div_ceil(4);
                let is_here = |found: &Found| found.space == space && words.contains(&(found.address / 4));
                for (found, is_marked) in raced.iter().zip(&mut is_marked).filter(|(found, _)| is_here(found)) {
                    *is_marked = true;
                    mark.bits[lane as usize] = u128::MAX >> (128 - 32 * rows.min(4));
                    let origin = &mut mark.origin[lane as usize];
                    (origin.address, origin.raced) = (found.address, found.other);
                }
            }
            if mark.lanes() != 0 {
                self.put_mark(CallSlot::Register { row, rows }, &mark, mask);
            }
        }
        // Memory of a peer has another address there.
        let elsewhere = raced.iter().zip(is_marked).filter(|(_, is_marked)| !is_marked);
        if let Some(checking) = &mut self.checking {
            elsewhere.for_each(|(found, _)| checking.findings.add(*found));
        }
    }

    /// Marks a register loaded by `ldmatrix`: `bits` are the undefined ones, `from` the offsets in
    /// shared memory of the rows of the matrix.
    #[cold]
    pub(crate) fn mark_matrix(&mut self, op: &Op, row: u32, bits: &[u32; LANES], from: u32) {
        let mut mark = Mark::none(origin(op.instruction, Where::Shared(from), 0));
        mark.bits = bits.map(u128::from);
        if mark.lanes() != 0 {
            self.put_mark(CallSlot::Register { row, rows: 1 }, &mark, u32::MAX);
        }
    }

    /// The uninitialised bytes of 16 in the block's shared memory, as masks of their bits.
    pub(crate) fn unwritten_words(&self, offset: u32) -> [u32; 4] {
        let byte = |n: u32| u32::from(self.is_unwritten(Where::Shared(offset + n))) * 0xff;
        std::array::from_fn(|word| (0..4).fold(0, |all, n| all | byte(word as u32 * 4 + n) << (n * 8)))
    }

    /// Location of each lane's access in a load or store.
    pub(super) fn accessed(&self, op: &Op, space: Space) -> [Where; LANES] {
        // SAFETY: the decoder checked the operands.
        let mut at = unsafe { addresses(self, op, Access(op.dst2).wide()) };
        if space == Space::Local && op.a == NONE {
            at = at.map(|a| a.wrapping_add(u64::from(self.local_base)));
        }
        at.map(|address| Where::of(space, address, self.cluster.rank))
    }

    /// Returns true if nothing has written a byte.
    fn is_unwritten(&self, at: Where) -> bool {
        let Some(checking) = &self.checking else { return false };
        match at {
            Where::Global(address) => self
                .global
                .allocation(address)
                .is_some_and(|allocation| allocation.shadow().first_unwritten(address, 1).is_some()),
            Where::Shared(offset) => {
                let is_inside = offset < self.shared_bytes;
                is_inside
                    && match self.cluster_memory(self.cluster.rank) {
                        Some(own) => own.first_unwritten((offset, 1)).is_some(),
                        None => checking.block.is_shared_unwritten(offset),
                    }
            }
            Where::Peer(rank, offset) => {
                let memory = self.cluster_memory(rank).filter(|_| offset < self.shared_bytes);
                memory.is_some_and(|memory| memory.first_unwritten((offset, 1)).is_some())
            }
            Where::Local(_) | Where::Elsewhere => false,
        }
    }

    /// Marks a byte as unwritten, since the value stored there came from an unwritten byte.
    fn leave_unwritten(&mut self, at: Where) {
        let rank = if let Where::Peer(rank, _) = at { rank } else { self.cluster.rank };
        let memory = self.cluster_memory(rank);
        let Some(checking) = &mut self.checking else { return };
        match at {
            Where::Global(address) => {
                if let Some(allocation) = self.global.allocation(address) {
                    allocation.shadow().leave_unwritten(address);
                }
            }
            Where::Shared(offset) | Where::Peer(_, offset) if offset < self.shared_bytes => match memory {
                Some(memory) => memory.leave_unwritten(offset),
                None => checking.block.leave_shared_unwritten(offset),
            },
            Where::Shared(_) | Where::Peer(..) | Where::Local(_) | Where::Elsewhere => {}
        }
    }

    /// Marks the destination of a store of undefined bits.
    pub(super) fn leave_stored(&mut self, op: &Op, at: &[Where; LANES], lanes: u32, marks: &[Option<Mark>]) {
        let size = Access(op.dst2).element();
        for (n, mark) in (0u32..).zip(marks) {
            for lane in lanes_of(lanes) {
                let start = at[lane as usize].plus(n * size);
                if let Where::Local(offset) = start {
                    self.store_local(offset, size, lane, mark.as_ref());
                    continue;
                }
                let Some(mark) = mark else { break };
                let bits = mark.bits[lane as usize];
                for byte in (0..size).filter(|byte| bits >> (byte * 8) & 0xff == 0xff) {
                    self.leave_unwritten(start.plus(byte));
                    if let Where::Global(address) = start.plus(byte) {
                        self.hand_on(op.instruction, lane, address, mark.origin[lane as usize]);
                    }
                }
            }
        }
    }

    /// Notes that a lane has copied unwritten bytes to global memory.
    fn hand_on(&mut self, instruction: u32, lane: u32, address: u64, origin: Origin) {
        let (block, warp) = (u32::try_from(self.block).unwrap_or(u32::MAX), self.warp);
        let side = |instr, lane| Side { instr, block, warp, lane };
        let sides = (side(instruction, lane), side(origin.instruction, origin.lane));
        if let Some(checking) = &mut self.checking {
            checking.findings.hand_on(HandedOn { range: address..address + 1, sides });
        }
    }

    /// Marks an element that a lane has stored to local memory.
    fn store_local(&mut self, offset: u32, size: u32, lane: u32, mark: Option<&Mark>) {
        let Some(undefined) = self.undefined() else { return };
        let (first, words) = (offset / 4, size.div_ceil(4));
        let stays = mark.is_none_or(|mark| mark.bits[lane as usize] == 0);
        for word in 0..words {
            let place = Place::Local(first + word);
            if stays && undefined.get(place).is_none() {
                continue;
            }
            let (shift, kept) = match size {
                1 | 2 => (offset % 4 * 8, !(((1 << (size * 8)) - 1) << (offset % 4 * 8)) & super::WORD),
                _ => (0, 0),
            };
            let bits = mark.map_or(0, |mark| mark.bits[lane as usize] >> (word * 32) & super::WORD);
            let origin = mark.map(|mark| mark.origin[lane as usize]);
            let old = undefined.get(place).cloned();
            let Some(origin) = origin.or(old.as_ref().map(|old| old.origin[lane as usize])) else { continue };
            let mut new = old.unwrap_or_else(|| Mark::none(origin));
            let at = lane as usize;
            new.bits[at] = new.bits[at] & kept | bits << shift & !kept;
            if let Some(mark) = mark {
                new.origin[at] = mark.origin[at];
                new.computed = new.computed & !(1 << lane) | mark.computed & 1 << lane;
            }
            undefined.put(place, &new, 1 << lane);
        }
    }

    /// Marks the values that a load got from undefined bits in local memory.
    pub(super) fn load_local(&mut self, op: &Op, at: &[Where; LANES], lanes: u32) {
        let lanes = lanes & local_lanes(at);
        if lanes == 0 || self.undefined().is_none_or(|undefined| undefined.others.is_empty()) {
            return;
        }
        let access = Access(op.dst2);
        let (size, rows) = (access.element(), rows_of(access.element()));
        for (n, row) in (0u32..).zip(element_rows(op)).take(access.count() as usize) {
            let mut mark = None;
            for lane in lanes_of(lanes) {
                let Where::Local(offset) = at[lane as usize].plus(n * size) else { continue };
                for word in 0..size.div_ceil(4) {
                    let Some(undefined) = self.undefined() else { return };
                    let Some(old) = undefined.get(Place::Local(offset / 4 + word)) else { continue };
                    let bits = old.bits[lane as usize];
                    let bits = if size < 4 { bits >> (offset % 4 * 8) & ((1 << (size * 8)) - 1) } else { bits };
                    if bits == 0 {
                        continue;
                    }
                    let bits = if size < 4 { access.extend(bits as u32).into() } else { bits };
                    let mark = mark.get_or_insert_with(|| Mark::none(old.origin[lane as usize]));
                    mark.bits[lane as usize] |= bits << (word * 32);
                    mark.origin[lane as usize] = old.origin[lane as usize];
                    mark.computed |= old.computed & 1 << lane;
                }
            }
            if let Some(mark) = mark {
                self.put_mark(CallSlot::Register { row, rows }, &mark, lanes);
            }
        }
    }

    /// The unwritten bytes of a range of the block's shared memory, by their offsets from its
    /// start.
    #[cold]
    pub(crate) fn unwritten_in(&self, start: u32, bytes: u32) -> Vec<u32> {
        let own = self.cluster_memory(self.cluster.rank);
        if own.is_some_and(|own| own.first_unwritten((start, bytes)).is_none()) {
            return Vec::new();
        }
        (0..bytes).filter(|&byte| self.is_unwritten(Where::Shared(start + byte))).collect()
    }

    /// Marks a byte of global memory that a lane's copy took from an unwritten byte.
    #[cold]
    pub(crate) fn leave_copied_out(&mut self, by: Side, address: u64) {
        self.leave_unwritten(Where::Global(address));
        if let Some(checking) = &mut self.checking {
            checking.findings.hand_on(HandedOn { range: address..address + 1, sides: (by, by) });
        }
    }

    /// Marks the undefined bits of a row of 16 bytes that `stmatrix` has stored.
    #[cold]
    pub(crate) fn leave_row(&mut self, offset: u32, bits: [u32; 4]) {
        for (word, bits) in (0u32..).zip(bits) {
            for byte in (0..4).filter(|byte| bits >> (byte * 8) & 0xff == 0xff) {
                self.leave_unwritten(Where::Shared(offset + word * 4 + byte));
            }
        }
    }

    /// The undefined bits of a 32-bit register, by lane; `None` without any.
    #[cold]
    pub(crate) fn undefined_bits(&mut self, row: u32) -> Option<[u32; LANES]> {
        self.mark(CallSlot::Register { row, rows: 1 }).map(|mark| mark.bits.map(|bits| bits as u32))
    }

    /// Marks the bytes of the block's shared memory that a copy took from unwritten bytes.
    #[cold]
    pub(crate) fn leave_copied(&mut self, from: u64, to: u32, bytes: u32) {
        for byte in 0..bytes {
            if self.is_unwritten(Where::Global(from + u64::from(byte))) {
                self.leave_unwritten(Where::Shared(to + byte));
            }
        }
    }
}

fn origin(instruction: u32, at: Where, lane: u32) -> Origin {
    let (space, address) = match at {
        Where::Shared(offset) | Where::Peer(_, offset) | Where::Local(offset) => (Checked::Shared, offset.into()),
        Where::Global(address) => (Checked::Global, address),
        Where::Elsewhere => (Checked::Global, 0),
    };
    Origin { instruction, lane, space, address, raced: None }
}
