//! Record numbers of one block: allocated from its launch, and told from those of other blocks.

use std::ops::Range;

use crate::check::global::readers::{OwnLists, Readers};
use crate::check::global::records::{LaunchCheck, Record};

const CACHED: usize = 8;
/// Records that a block should find without taking a batch that another block's may interrupt.
const SPARE: u32 = 64;
#[derive(Debug, Clone, Copy, Default)]
struct Cached {
    instr: u32,
    tick: u32,
    shape: u32,
    id: u32,
}

/// The records that a block has taken for itself.
#[derive(Debug)]
pub(in crate::check) struct BlockRecords {
    /// Numbers still free.
    free: Range<u32>,
    /// Numbers `start..free.start` are the present block's.
    start: u32,
    /// The present block has other numbers too.
    pub(in crate::check) scattered: bool,
    cache: Box<[[Cached; CACHED]; 32]>,
    pub(in crate::check) lists: OwnLists,
}

impl BlockRecords {
    pub(in crate::check) fn new() -> Self {
        let cache = Box::new([[Cached::default(); CACHED]; 32]);
        Self { free: 0..0, start: 0, scattered: false, cache, lists: OwnLists::default() }
    }

    pub(in crate::check) fn begin(&mut self, launch: &LaunchCheck) {
        self.scattered = false;
        if self.free.len() < SPARE as usize
            && let Some(batch) = launch.batch()
        {
            self.free = if batch.start == self.free.end { self.free.start..batch.end } else { batch };
        }
        self.start = self.free.start;
        self.lists.clear();
    }

    /// Numbers that are certainly the present block's; all of them if not `scattered`.
    #[inline(always)]
    pub(in crate::check) const fn own(&self) -> Own {
        Own { start: self.start, count: self.free.start - self.start }
    }

    /// The number for a record, 0 when there are no more.
    pub(in crate::check) fn id(&mut self, launch: &LaunchCheck, record: &Record) -> u32 {
        // A tensor copy reads its map and writes its tensor.
        let shape = record.bytes | record.lane_bytes << 4 | u32::from(record.by_proxy) << 8;
        let slot = record.instr as usize % CACHED;
        let cached = self.cache[record.at.warp as usize][slot];
        if cached.id >= self.start
            && cached.id < self.free.start
            && (cached.instr, cached.tick, cached.shape) == (record.instr, record.at.tick, shape)
        {
            return cached.id;
        }
        let Some(id) = self.number(launch) else { return 0 };
        launch.set(id, record);
        self.cache[record.at.warp as usize][slot] = Cached { instr: record.instr, tick: record.at.tick, shape, id };
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
        }
        let id = self.free.start;
        self.free.start += 1;
        Some(id)
    }
}

/// A block's numbers, as far as they are consecutive.
#[derive(Debug, Clone, Copy)]
pub(in crate::check) struct Own {
    start: u32,
    count: u32,
}

impl Own {
    #[inline(always)]
    pub(in crate::check) const fn has(self, id: u32) -> bool {
        id.wrapping_sub(self.start) < self.count
    }
}
