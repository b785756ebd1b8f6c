//! Record numbers of one block: allocated from its launch, and distinguished from those of other
//! blocks.

use std::ops::Range;

use crate::check::global::readers::{OwnLists, Readers};
use crate::check::global::records::{LaunchCheck, Record};
use crate::check::order::block::BlockOrder;

const CACHED: usize = 8;
// THRESHOLD: a block takes another batch of numbers; tested by
// crates/sim/src/check/tests/limits.rs::a_block_with_more_records_than_a_batch_does_not_take_its_own_for_anothers
/// Records that a block should find room for without another batch, since other blocks' batches may
/// come in between.
const SPARE: u32 = 64;
#[derive(Debug, Clone, Copy, Default)]
struct Cached {
    instr: u32,
    tick: u32,
    shape: u32,
    /// The warp's last event in its block's order.
    event: u32,
    id: u32,
}

/// The record numbers of a block.
#[derive(Debug)]
pub(in crate::check) struct BlockRecords {
    /// Numbers still free.
    free: Range<u32>,
    /// Numbers `start..free.start` are the current block's.
    start: u32,
    /// The current block has other numbers, too.
    pub(in crate::check) scattered: bool,
    /// Accesses under numbers below are ordered before everything that the block still does.
    settled: u32,
    /// Floor and generation of the block's order at the last change of `settled`.
    order: (u32, u32),
    /// Accesses before and after an event of their warp get different numbers.
    is_generous: bool,
    cache: Box<[[Cached; CACHED]; 32]>,
    pub(in crate::check) lists: OwnLists,
}

impl BlockRecords {
    pub(in crate::check) fn new() -> Self {
        let cache = Box::new([[Cached::default(); CACHED]; 32]);
        Self {
            free: 0..0,
            start: 0,
            scattered: false,
            settled: 0,
            order: (0, 0),
            is_generous: true,
            cache,
            lists: OwnLists::default(),
        }
    }

    pub(in crate::check) fn begin(&mut self, launch: &LaunchCheck) {
        self.scattered = false;
        if self.free.len() < SPARE as usize
            && let Some(batch) = launch.batch()
        {
            self.free = if batch.start == self.free.end { self.free.start..batch.end } else { batch };
        }
        self.start = self.free.start;
        self.settled = self.start;
        self.is_generous = launch.is_generous();
        self.lists.clear();
    }

    /// Follows a barrier of the whole block.
    #[inline(always)]
    pub(in crate::check) fn follow(&mut self, order: &BlockOrder) {
        let now = (order.floor(), order.generation());
        if self.order != now {
            self.order = now;
            self.settled = self.free.start;
        }
    }

    /// Numbers that are certainly the current block's, all of them if not `scattered`, from the
    /// view of `warp`.
    #[inline(always)]
    pub(in crate::check) const fn own<'a>(&self, launch: &'a LaunchCheck, warp: u32, synced: u32) -> Own<'a> {
        let Self { start, settled, .. } = *self;
        Own { launch, start, count: self.free.start - start, settled, warp, synced }
    }

    /// Returns true if the accesses under this number are ordered before everything that the block
    /// still does.
    pub(in crate::check) const fn is_settled(&self, id: u32) -> bool {
        id < self.settled
    }

    /// The number for a record, 0 when there are no more.
    pub(in crate::check) fn id(&mut self, launch: &LaunchCheck, record: &Record, event: u32) -> u32 {
        // A tensor copy reads its map and writes its tensor.
        let shape = record.bytes | record.lane_bytes << 4 | u32::from(record.by_proxy) << 8;
        let told = if self.is_generous { event } else { 0 };
        let slot = record.instr as usize % CACHED;
        let cached = self.cache[record.at.warp as usize][slot];
        if cached.id >= self.start
            && cached.id < self.free.start
            && (cached.instr, cached.tick, cached.shape) == (record.instr, record.at.tick, shape)
            && cached.event >= told
        {
            if cached.event < event {
                launch.coarsen();
            }
            return cached.id;
        }
        let Some(id) = self.number(launch) else { return 0 };
        launch.set(id, record);
        self.cache[record.at.warp as usize][slot] =
            Cached { instr: record.instr, tick: record.at.tick, shape, event, id };
        id
    }

    /// The number for a list of readers, 0 when there are no more.
    pub(in crate::check) fn list(&mut self, launch: &LaunchCheck, readers: Readers) -> u32 {
        let Some(id) = self.number(launch) else { return 0 };
        launch.set_readers(id, readers);
        id
    }

    fn number(&mut self, launch: &LaunchCheck) -> Option<u32> {
        if self.free.is_empty() {
            let batch = launch.batch()?;
            if batch.start != self.free.end {
                self.scattered |= self.start != self.free.start;
                self.start = batch.start;
            }
            self.free = batch;
            self.is_generous = launch.is_generous();
        }
        let id = self.free.start;
        self.free.start += 1;
        Some(id)
    }
}

/// Order between a record of the same block and a later access of a warp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    /// Ordered before all lanes.
    All,
    /// Same warp: certainly ordered before the same lane only.
    SameLane,
    /// Unknown; needs a closer look.
    Open,
}

/// A block's numbers, as far as they are consecutive.
#[derive(Debug, Clone, Copy)]
pub(in crate::check) struct Own<'a> {
    launch: &'a LaunchCheck,
    start: u32,
    count: u32,
    settled: u32,
    warp: u32,
    /// Records of the warp below this number are ordered before all of its lanes.
    synced: u32,
}

impl Own<'_> {
    /// Treats all numbers as settled: for memory whose races inside the block are judged elsewhere.
    pub(in crate::check) const fn all_settled(self) -> Self {
        Self { settled: u32::MAX, ..self }
    }

    #[inline(always)]
    pub(in crate::check) const fn has(self, id: u32) -> bool {
        id.wrapping_sub(self.start) < self.count
    }

    /// Returns true if the accesses under this number are ordered before all that the block still
    /// does.
    #[inline(always)]
    pub(in crate::check) const fn is_settled(self, id: u32) -> bool {
        id < self.settled
    }

    /// Returns true if a number, though it may be the block's, belongs to another block.
    #[inline(never)]
    pub(in crate::check) fn is_foreign(self, id: u32, block: u32) -> bool {
        self.launch.get(id).is_some_and(|record| record.at.block != block)
    }

    #[inline(always)]
    fn before(self, id: u32) -> Before {
        if id < self.settled { Before::All } else { self.look(id) }
    }

    #[inline]
    fn look(self, id: u32) -> Before {
        match self.launch.stamp(id) {
            Some((_, 0)) => Before::All,
            Some((warp, time)) if warp == self.warp && time < self.synced => Before::All,
            Some((warp, _)) if warp == self.warp => Before::SameLane,
            Some(_) | None => Before::Open,
        }
    }

    /// Returns true if the number is the block's and its accesses are ordered before the asking
    /// lane.
    #[inline(always)]
    pub(in crate::check) fn has_before(self, id: u32, same_lane: impl Fn() -> bool) -> bool {
        self.has(id)
            && match self.before(id) {
                Before::All => true,
                Before::SameLane => same_lane(),
                Before::Open => false,
            }
    }
}
