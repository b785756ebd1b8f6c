//! Records of accesses to global memory: a table shared by all workers, whose numbers the shadow's
//! cells hold.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use warpfold_ptx::Scope;

use crate::check::access::{Access, Kind, Sizes, Space, Strength};
use crate::check::async_proxy::global_fences::ProxyFences;
use crate::check::async_proxy::maps::ChangedMaps;
use crate::check::findings::{Findings, Found, Rule, Side};
use crate::check::global::dependence::Overlap;
use crate::check::global::observed::Observed;
use crate::check::global::readers::Readers;
use crate::check::global::shadow::SplitWriters;
use crate::check::order::locations::Locations;
use crate::check::order::reach::Moment;

// THRESHOLD: no more races between blocks are recorded, which a finding says; half of it, and
// numbering restarts at the next launch; tested by
// crates/sim/src/check/tests/limits.rs::when_records_run_out_in_a_launch_it_says_so_once_and_invents_nothing
// and
// crates/sim/src/check/tests/limits.rs::a_new_numbering_of_the_device_forgets_races_and_keeps_what_was_written
/// Record numbers have 24 bits; 0 means none.
pub(in crate::check) const MAX_ID: u32 = (1 << 24) - 1;
/// Numbers that a block allocates at a time.
const BATCH: u32 = 256;
const CHUNK: u32 = 4096;
// THRESHOLD: accesses of a block before and after an event share a record, which a finding says;
// tested by crates/sim/src/check/tests/limits.rs::a_launch_that_saves_records_says_so_once
/// Numbers of a launch available for distinguishing the times of accesses inside blocks.
const GENEROUS: u32 = 1 << 20;
/// Flag in an entry's `info`: a list of readers instead of a record.
const LIST: u32 = 1 << 31;
/// Flag beside [`LIST`]: readers of more than one block.
const MIXED: u32 = 1 << 30;

/// Value of a record's bytes per lane if lanes touched parts one by one.
pub(in crate::check) const PARTS: u32 = 7;

/// An access by one warp at one instruction, between two releases of its block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::check) struct Record {
    pub(in crate::check) instr: u32,
    pub(in crate::check) at: Moment,
    /// Mask of the word's bytes that were accessed.
    pub(in crate::check) bytes: u32,
    pub(in crate::check) kind: Kind,
    pub(in crate::check) strength: Reached,
    /// Bytes per lane, if neighbouring lanes share the word under the name of the first; 4 for a
    /// lane with the whole word; [`PARTS`] if lanes touched parts one by one, and the last one is
    /// named.
    pub(in crate::check) lane_bytes: u32,
    /// Bytes of the scalars that are accessed, 0 if unknown.
    pub(in crate::check) element: u32,
    /// True for a bulk copy, in the async proxy.
    pub(in crate::check) by_proxy: bool,
    /// True if the block had let dependent launches begin.
    pub(in crate::check) is_late: bool,
    /// Time in the block's own order, for its other threads; 0 if they do not race with it, as with
    /// a copy, which others judge.
    pub(in crate::check) time: u32,
}

/// Strength and scope of an access as another block sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::check) enum Reached {
    /// A plain access.
    Weak,
    /// Strong, but of a scope that ends at the block.
    Narrow,
    /// Strong, with a scope that ends at the cluster.
    Near,
    Wide,
}

impl Reached {
    pub(in crate::check) const fn of(access: &Access) -> Self {
        match access.strength {
            Strength::Weak => Self::Weak,
            Strength::Strong(_, Scope::Block) => Self::Narrow,
            Strength::Strong(_, Scope::Cluster) => Self::Near,
            Strength::Strong(_, Scope::Gpu | Scope::System) => Self::Wide,
        }
    }
}

#[derive(Debug, Default)]
struct Entry {
    instr: AtomicU32,
    block: AtomicU32,
    tick: AtomicU32,
    time: AtomicU32,
    /// 0 if unused; else kind, bytes, warp, strength, bytes per lane, proxy, late, bytes of a
    /// scalar. A list has its last record, what is before it, its length and 1 more than its turn
    /// in the other fields, and here `LIST` and when to clear it out.
    info: AtomicU32,
}

type Chunk = Box<[Entry]>;

/// Numbers of records across the launches of one device memory, so that records of older launches
/// are recognised by number.
#[derive(Debug)]
pub(crate) struct DeviceCheck {
    /// The next number; overlapping launches share it, and treat each other's records as ordered.
    next: Arc<AtomicU32>,
    /// Launches in progress.
    running: u32,
}

impl Default for DeviceCheck {
    fn default() -> Self {
        Self { next: Arc::new(AtomicU32::new(1)), running: 0 }
    }
}

impl DeviceCheck {
    /// Starts a launch. Now and then numbering restarts, and `forget` must then call
    /// [`GlobalShadow::forget`](crate::check::GlobalShadow::forget) on the shadow of every
    /// allocation. `orders_blocks` says whether the program has any instruction that could order
    /// blocks: a fence, a strong access or an atomic.
    pub(crate) fn begin(&mut self, orders_blocks: bool, forget: impl FnOnce()) -> LaunchCheck {
        if self.running == 0 && self.next.load(Ordering::Relaxed) > MAX_ID / 2 {
            forget();
            self.next = Arc::new(AtomicU32::new(1));
        }
        self.running += 1;
        LaunchCheck::new(Arc::clone(&self.next), orders_blocks)
    }

    /// Ends the launch; adds findings for the limits that it has reached.
    pub(crate) fn end(&mut self, launch: &LaunchCheck, findings: &mut Findings) {
        self.running = self.running.saturating_sub(1);
        let limits = [
            (launch.exhausted.load(Ordering::Relaxed), Rule::RecordsExhausted),
            (launch.is_coarse.load(Ordering::Relaxed), Rule::TimesCoarsened),
            (launch.locations.has_coarse(), Rule::OrderCoarsened),
        ];
        for (_, rule) in limits.into_iter().filter(|(reached, _)| *reached) {
            let this = Side { instr: 0, block: 0, warp: 0, lane: 0 };
            findings.add(Found { rule, space: Space::Global, address: 0, this, other: None, count: 1 });
        }
    }
}

/// State shared by the blocks of one launch.
#[derive(Debug)]
pub(crate) struct LaunchCheck {
    /// The first number of this launch; it stands for "see the split words" in a cell.
    pub(in crate::check) first: u32,
    next: Arc<AtomicU32>,
    chunks: Box<[OnceLock<Chunk>]>,
    exhausted: AtomicBool,
    /// Times of accesses were rounded down.
    is_coarse: AtomicBool,
    pub(in crate::check) locations: Locations,
    pub(in crate::check) split: SplitWriters,
    pub(in crate::check) observed: Observed,
    pub(in crate::check) proxy_fences: ProxyFences,
    pub(in crate::check) maps: ChangedMaps,
    /// True if the program has any instruction that could order blocks.
    pub(in crate::check) orders_blocks: bool,
    pub(in crate::check) overlap: Overlap,
    /// True if the program has strong accesses of a scope that ends at the cluster.
    pub(in crate::check) has_cluster_scope: bool,
    /// Sizes of strong accesses so far.
    sizes: AtomicU32,
}

impl LaunchCheck {
    fn new(next: Arc<AtomicU32>, orders_blocks: bool) -> Self {
        let first = next.fetch_add(1, Ordering::Relaxed).min(MAX_ID);
        let chunks = (MAX_ID - first).div_ceil(CHUNK) as usize + 1;
        Self {
            first,
            next,
            chunks: (0..chunks).map(|_| OnceLock::new()).collect(),
            exhausted: AtomicBool::new(false),
            is_coarse: AtomicBool::new(false),
            locations: Locations::default(),
            split: SplitWriters::default(),
            observed: Observed::default(),
            proxy_fences: ProxyFences::default(),
            maps: ChangedMaps::default(),
            orders_blocks,
            overlap: Overlap::default(),
            has_cluster_scope: true,
            sizes: AtomicU32::new(0),
        }
    }

    /// Sets whether the program has any `fence.sc`, and any scope that ends at a cluster; without
    /// this it may.
    pub(crate) const fn tell_of(&mut self, has_fence_sc: bool, has_cluster_scope: bool) {
        self.locations.has_fence_sc = has_fence_sc;
        self.has_cluster_scope = has_cluster_scope;
    }

    /// Notes the size of a strong access; returns true if there are other sizes, so that accesses
    /// may overlap in part.
    pub(in crate::check) fn mixes_sizes(&self, access: &Access) -> bool {
        let (known, own) = (Sizes(self.sizes.load(Ordering::Relaxed)), Sizes::of(access));
        if known.with(own) == known {
            return known.are_mixed();
        }
        Sizes(self.sizes.fetch_or(own.0, Ordering::AcqRel)).with(own).are_mixed()
    }

    /// Returns true if its numbers continue those of an earlier launch.
    pub(in crate::check) fn continues(&self, earlier: &Self) -> bool {
        Arc::ptr_eq(&self.next, &earlier.next)
    }

    /// Allocates a batch of numbers.
    pub(in crate::check) fn batch(&self) -> Option<std::ops::Range<u32>> {
        let start = self.next.load(Ordering::Relaxed);
        if start < MAX_ID - BATCH {
            let start = self.next.fetch_add(BATCH, Ordering::Relaxed);
            if start < MAX_ID - BATCH {
                return Some(start..start + BATCH);
            }
        }
        self.exhausted.store(true, Ordering::Relaxed);
        None
    }

    /// The entry of a number of this launch, to be filled in before the number goes into any cell.
    fn place(&self, id: u32) -> &Entry {
        let index = id - self.first;
        let chunk =
            self.chunks[(index / CHUNK) as usize].get_or_init(|| (0..CHUNK).map(|_| Entry::default()).collect());
        &chunk[(index % CHUNK) as usize]
    }

    /// Entry under a number, if it is one of this launch, and its `info`.
    #[inline]
    fn entry(&self, id: u32) -> Option<(&Entry, u32)> {
        let index = id.checked_sub(self.first)?;
        let chunk = self.chunks.get((index / CHUNK) as usize)?.get()?;
        let entry = &chunk[(index % CHUNK) as usize];
        let info = entry.info.load(Ordering::Acquire);
        (info != 0).then_some((entry, info))
    }

    /// Stores a record under a number.
    pub(in crate::check) fn set(&self, id: u32, record: &Record) {
        let kind = match record.kind {
            Kind::Read => 1,
            Kind::Write => 2,
            Kind::Atomic => 3,
        };
        let strength = match record.strength {
            Reached::Weak => 0,
            Reached::Narrow => 1,
            Reached::Near => 2,
            Reached::Wide => 3,
        };
        let (proxy, late) = (u32::from(record.by_proxy), u32::from(record.is_late));
        let place = record.bytes << 2 | record.at.warp << 6 | record.lane_bytes << 13;
        let info = kind | place | strength << 11 | proxy << 16 | late << 17 | (record.element & 0xf) << 18;
        let entry = self.place(id);
        entry.instr.store(record.instr, Ordering::Relaxed);
        entry.block.store(record.at.block, Ordering::Relaxed);
        entry.tick.store(record.at.tick, Ordering::Relaxed);
        entry.time.store(record.time, Ordering::Relaxed);
        entry.info.store(info, Ordering::Release);
    }

    /// Warp and time of a record, `None` for a list.
    #[inline]
    pub(in crate::check) fn stamp(&self, id: u32) -> Option<(u32, u32)> {
        let (entry, info) = self.entry(id).filter(|(_, info)| info & LIST == 0)?;
        Some((info >> 6 & 31, entry.time.load(Ordering::Relaxed)))
    }

    /// Notes that an access shares a record from before an event of its warp.
    pub(in crate::check) fn coarsen(&self) {
        self.is_coarse.store(true, Ordering::Relaxed);
    }

    /// Returns true while numbers are plentiful.
    pub(in crate::check) fn is_generous(&self) -> bool {
        self.next.load(Ordering::Relaxed).saturating_sub(self.first) < GENEROUS
    }

    /// Stores a list of readers under a number.
    pub(in crate::check) fn set_readers(&self, id: u32, readers: Readers) {
        let entry = self.place(id);
        entry.instr.store(readers.last, Ordering::Relaxed);
        entry.block.store(readers.before, Ordering::Relaxed);
        entry.tick.store(readers.count, Ordering::Relaxed);
        entry.time.store(readers.turn.map_or(0, |turn| turn + 1), Ordering::Relaxed);
        let mixed = if readers.is_mixed { MIXED } else { 0 };
        entry.info.store(LIST | mixed | readers.clear_at, Ordering::Release);
    }

    /// The list of readers with a number, if it is one.
    pub(in crate::check) fn readers(&self, id: u32) -> Option<Readers> {
        let (entry, info) = self.entry(id).filter(|(_, info)| info & LIST != 0)?;
        Some(Readers {
            last: entry.instr.load(Ordering::Relaxed),
            before: entry.block.load(Ordering::Relaxed),
            count: entry.tick.load(Ordering::Relaxed),
            clear_at: info & !(LIST | MIXED),
            is_mixed: info & MIXED != 0,
            turn: entry.time.load(Ordering::Relaxed).checked_sub(1),
        })
    }

    /// The record of a number, or the last one of a list, if it is one of this launch.
    pub(in crate::check) fn get(&self, id: u32) -> Option<Record> {
        let (mut entry, mut info) = self.entry(id)?;
        if info & LIST != 0 {
            (entry, info) = self.entry(entry.instr.load(Ordering::Relaxed))?;
        }
        let kind = match info & 3 {
            1 => Kind::Read,
            2 => Kind::Write,
            _ => Kind::Atomic,
        };
        Some(Record {
            instr: entry.instr.load(Ordering::Relaxed),
            at: Moment {
                block: entry.block.load(Ordering::Relaxed),
                warp: info >> 6 & 31,
                tick: entry.tick.load(Ordering::Relaxed),
            },
            bytes: info >> 2 & 15,
            kind,
            strength: match info >> 11 & 3 {
                0 => Reached::Weak,
                1 => Reached::Narrow,
                2 => Reached::Near,
                _ => Reached::Wide,
            },
            lane_bytes: info >> 13 & 7,
            element: info >> 18 & 0xf,
            by_proxy: info >> 16 & 1 != 0,
            is_late: info >> 17 & 1 != 0,
            time: entry.time.load(Ordering::Relaxed),
        })
    }
}
