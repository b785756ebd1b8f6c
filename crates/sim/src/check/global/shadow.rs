//! The shadow of one global allocation: 8 bytes for each 4-byte word.
//!
//! After FastTrack (Flanagan and Freund, 2009), with blocks as the threads; inside a block the
//! order is that of [`order`](crate::check::order::block), where records have a time. A cell packs
//! which bytes were ever written (4 bits), the last writer (record number 24, lane 5, strong 1),
//! the last reader (24, 5) and whether several blocks have read since the last write (1). Readers
//! that nothing orders are in a list ([`readers`](crate::check::global::readers)), whose number
//! takes the place of the reader's. Bytes of a word that different blocks wrote, or lanes in no
//! order, have their writers in a table of the launch instead.
//!
//! Workers race on a cell with plain loads and stores (release and acquire, so that a record is
//! filled in when its number is seen). A lost update drops a record, never makes one up: each
//! record in a cell is of an access that did happen, and whether that one was ordered before the
//! present one does not depend on what else was lost. Only the initialised bits must not get lost;
//! a store to a cell keeps them, as it either sets all four or replaces a cell that already had all
//! four, and any other change is a compare-and-swap.
//!
//! What can be missed: of the lanes of a warp that read a word by one instruction all but the first;
//! what a block wrote strongly before it wrote it strongly again; races inside a block between
//! accesses by instructions that it repeats, once a launch has used up a million numbers; races of
//! copies inside their block, which [`flight`](crate::check::async_proxy::flight) and proxy fences
//! cover; readers before a strong write that followed one by another block; of several unordered
//! strong writes all but two; what a block did plainly to a word before it wrote it strongly. Of
//! parts of a word that lanes read in no order the last lane is named, and lanes of its warp are
//! not told apart.
//! [`judge`](crate::check::global::judge) has the rules, this file the state.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

const INIT: u64 = 0xf;
const STRONG: u64 = 1 << 4;
const SEVERAL: u64 = 1 << 5;
const WRITER_LANE: u32 = 6;
const WRITER: u32 = 11;
const READER_LANE: u32 = 35;
const READER: u32 = 40;
const ID: u64 = 0xff_ffff;

/// Words per chunk of the shadow; chunks are allocated at their first use.
const CHUNK: usize = 1 << 13;

/// The packed state of one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::check) struct Cell(pub(in crate::check) u64);

impl Cell {
    pub(in crate::check) const fn init(self) -> u32 {
        (self.0 & INIT) as u32
    }

    /// All four bytes written, by an unknown writer.
    pub(in crate::check) const WRITTEN: Self = Self(INIT);

    /// Returns true if all its records are of launches before the one that starts with record
    /// `from`.
    #[inline(always)]
    pub(in crate::check) const fn is_old(self, from: u32) -> bool {
        let writer = self.0 & ID << WRITER;
        writer < (from as u64) << WRITER && self.0 < (from as u64) << READER
    }

    /// Returns true if the word is fully written, the last time in a launch before the one that
    /// starts with record `from`, or by the host.
    #[inline(always)]
    pub(in crate::check) const fn is_written_before(self, from: u32) -> bool {
        self.0 & INIT == INIT && self.0 & ID << WRITER < (from as u64) << WRITER
    }

    pub(in crate::check) const fn is_strong(self) -> bool {
        self.0 & STRONG != 0
    }

    pub(in crate::check) const fn has_several_readers(self) -> bool {
        self.0 & SEVERAL != 0
    }

    pub(in crate::check) const fn writer(self) -> u32 {
        (self.0 >> WRITER & ID) as u32
    }

    pub(in crate::check) const fn writer_lane(self) -> u32 {
        (self.0 >> WRITER_LANE & 31) as u32
    }

    pub(in crate::check) const fn reader(self) -> u32 {
        (self.0 >> READER) as u32
    }

    pub(in crate::check) const fn reader_lane(self) -> u32 {
        (self.0 >> READER_LANE & 31) as u32
    }

    /// Returns true if the reader is `turn` lanes ahead of a lane, modulo 32.
    #[inline(always)]
    pub(in crate::check) const fn is_reader_ahead(self, lane: u32, turn: u32) -> bool {
        self.reader_lane() == (lane + turn) % 32
    }

    /// The cell with both lanes 0.
    #[inline(always)]
    pub(in crate::check) const fn without_lanes(self) -> Self {
        Self(self.0 & !(31 << WRITER_LANE | 31 << READER_LANE))
    }

    /// Sets the reader's lane, which is 0.
    #[inline(always)]
    pub(in crate::check) const fn at_reader_lane(self, lane: u32) -> Self {
        Self(self.0 | (lane as u64) << READER_LANE)
    }

    /// Sets the writer's lane, which is 0.
    #[inline(always)]
    pub(in crate::check) const fn at_writer_lane(self, lane: u32) -> Self {
        Self(self.0 | (lane as u64) << WRITER_LANE)
    }

    /// Sets the writer's lane, which is 0, to that of another cell.
    #[inline(always)]
    pub(in crate::check) const fn with_writer_lane_of(self, other: Self) -> Self {
        Self(self.0 | other.0 & 31 << WRITER_LANE)
    }

    pub(in crate::check) const fn with_init(self, bytes: u32) -> Self {
        Self(self.0 | bytes as u64)
    }

    pub(in crate::check) const fn with_writer(self, id: u32, lane: u32, strong: bool) -> Self {
        let kept = self.0 & !(ID << WRITER | 31 << WRITER_LANE | STRONG);
        let strong = if strong { STRONG } else { 0 };
        Self(kept | (id as u64) << WRITER | (lane as u64) << WRITER_LANE | strong)
    }

    pub(in crate::check) const fn with_reader(self, id: u32, lane: u32, several: bool) -> Self {
        let kept = self.0 & !(ID << READER | 31 << READER_LANE | SEVERAL);
        let several = if several { SEVERAL } else { 0 };
        Self(kept | (id as u64) << READER | (lane as u64) << READER_LANE | several)
    }
}

/// Last writers of single bytes, for words that different blocks wrote in part: record number,
/// lane, strong.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::check) struct ByteWriter {
    pub(in crate::check) id: u32,
    pub(in crate::check) lane: u32,
    pub(in crate::check) strong: bool,
}

/// The words of a launch whose bytes have different writers.
#[derive(Debug)]
pub(in crate::check) struct SplitWriters {
    shards: [Mutex<HashMap<u64, [ByteWriter; 4]>>; 64],
}

impl Default for SplitWriters {
    fn default() -> Self {
        Self { shards: std::array::from_fn(|_| Mutex::default()) }
    }
}

impl SplitWriters {
    fn shard(&self, word: u64) -> &Mutex<HashMap<u64, [ByteWriter; 4]>> {
        &self.shards[(word >> 2) as usize % 64]
    }

    pub(in crate::check) fn get(&self, word: u64) -> [ByteWriter; 4] {
        let shard = self.shard(word).lock().unwrap_or_else(PoisonError::into_inner);
        shard.get(&word).copied().unwrap_or_default()
    }

    pub(in crate::check) fn update(&self, word: u64, change: impl FnOnce(&mut [ByteWriter; 4])) {
        let mut shard = self.shard(word).lock().unwrap_or_else(PoisonError::into_inner);
        change(shard.entry(word).or_default());
    }
}

#[derive(Debug, Default)]
struct Chunk {
    cells: OnceLock<Box<[AtomicU64]>>,
    /// Bytes of every word initialised before the cells exist.
    background: AtomicU8,
}

/// A piece of a shadow, looked up once.
#[derive(Debug, Clone, Copy)]
pub(in crate::check) struct Cells<'a> {
    first: usize,
    cells: &'a [AtomicU64],
}

impl<'a> Cells<'a> {
    /// The cell of a word, if it is in this piece.
    #[inline(always)]
    pub(in crate::check) fn cell(self, word: usize) -> Option<&'a AtomicU64> {
        self.cells.get(word.wrapping_sub(self.first))
    }
}

/// The shadow of one allocation; lives as long as the allocation.
#[derive(Debug)]
pub(crate) struct GlobalShadow {
    base: u64,
    words: usize,
    chunks: Box<[Chunk]>,
    all_written: AtomicBool,
    /// True if races between threads of one block must be found here.
    within_blocks: bool,
}

impl GlobalShadow {
    /// A shadow for `bytes` bytes at device address `base` (a multiple of 4), none of them
    /// initialised.
    pub(crate) fn new(base: u64, bytes: u64) -> Self {
        let words = bytes.div_ceil(4) as usize;
        let chunks = (0..words.div_ceil(CHUNK)).map(|_| Chunk::default()).collect();
        Self { base, words, chunks, all_written: AtomicBool::new(false), within_blocks: true }
    }

    /// Makes a shadow for memory in which races inside a block are not judged.
    pub(in crate::check) fn between_blocks(self) -> Self {
        Self { within_blocks: false, ..self }
    }

    /// Returns true if races inside a block are judged.
    #[inline(always)]
    pub(in crate::check) const fn is_within_blocks(&self) -> bool {
        self.within_blocks
    }

    pub(crate) const fn base(&self) -> u64 {
        self.base
    }

    fn cells(&self, chunk: usize) -> &[AtomicU64] {
        let Chunk { cells, background } = &self.chunks[chunk];
        cells.get_or_init(|| {
            let init = u64::from(background.load(Ordering::Relaxed));
            (0..CHUNK.min(self.words - chunk * CHUNK)).map(|_| AtomicU64::new(init)).collect()
        })
    }

    /// The cells of words `first..first + count` that are in one chunk.
    #[inline]
    pub(in crate::check) fn run(&self, first: usize, count: usize) -> &[AtomicU64] {
        let cells = self.cells(first / CHUNK);
        let start = first % CHUNK;
        &cells[start..cells.len().min(start + count)]
    }

    /// The chunk of a word.
    #[inline]
    pub(in crate::check) fn chunk(&self, word: usize) -> Cells<'_> {
        Cells { first: word / CHUNK * CHUNK, cells: self.cells(word / CHUNK) }
    }

    #[inline]
    pub(in crate::check) fn cell(&self, word: usize) -> &AtomicU64 {
        &self.cells(word / CHUNK)[word % CHUNK]
    }

    /// The word of an address.
    #[inline]
    pub(in crate::check) const fn word(&self, address: u64) -> usize {
        ((address - self.base) / 4) as usize
    }

    /// Notes that the host wrote `bytes` bytes at `address`.
    pub(crate) fn mark_written(&self, address: u64, bytes: u64) {
        let (start, end) = (address - self.base, address - self.base + bytes);
        let mut at = start;
        while at < end {
            let chunk = at as usize / (4 * CHUNK);
            let chunk_end = ((chunk + 1) * 4 * CHUNK) as u64;
            let stop = end.min(chunk_end);
            let whole = at as usize == chunk * 4 * CHUNK && (stop == chunk_end || stop as usize >= self.words * 4 - 3);
            if whole {
                self.mark_chunk(chunk);
            } else {
                self.mark_bytes(at, stop);
            }
            at = stop;
        }
    }

    /// Marks everything as written: for writes that are not tracked, such as those of a launch
    /// without checks.
    pub(crate) fn mark_all_written(&self) {
        if !self.all_written.swap(true, Ordering::Relaxed) {
            for chunk in 0..self.chunks.len() {
                self.mark_chunk(chunk);
            }
        }
    }

    fn mark_chunk(&self, chunk: usize) {
        let Chunk { cells, background } = &self.chunks[chunk];
        background.store(INIT as u8, Ordering::Relaxed);
        for cell in cells.get().into_iter().flatten() {
            if cell.load(Ordering::Relaxed) & INIT != INIT {
                cell.fetch_or(INIT, Ordering::Relaxed);
            }
        }
    }

    fn mark_bytes(&self, start: u64, end: u64) {
        let mut at = start;
        while at < end {
            let count = (end - at).min(4 - at % 4);
            let mask = ((1u64 << count) - 1) << (at % 4);
            self.cell(at as usize / 4).fetch_or(mask, Ordering::Relaxed);
            at += count;
        }
    }

    /// The first unwritten byte at or after `address`, of `bytes`.
    pub(crate) fn first_unwritten(&self, address: u64, bytes: u64) -> Option<u64> {
        let end = address + bytes;
        let mut at = address;
        while at < end {
            let word = self.word(at);
            let Chunk { cells, background } = &self.chunks[word / CHUNK];
            let init = match cells.get() {
                Some(cells) => Cell(cells[word % CHUNK].load(Ordering::Relaxed)).init(),
                None => u32::from(background.load(Ordering::Relaxed)),
            };
            let next = self.base + (word as u64 + 1) * 4;
            if let Some(byte) = (at..next.min(end)).find(|byte| init & 1 << ((byte - self.base) % 4) == 0) {
                return Some(byte);
            }
            at = next;
        }
        None
    }

    /// Marks a byte as unwritten, since the value stored there came from an unwritten byte.
    pub(crate) fn leave_unwritten(&self, address: u64) {
        let missing = 1 << ((address - self.base) % 4);
        self.cell(self.word(address)).fetch_and(!missing, Ordering::Relaxed);
    }

    /// Calls for each run of bytes in a range that are all written, or all unwritten.
    pub(crate) fn each_run(&self, address: u64, bytes: u64, mut each: impl FnMut(Range<u64>, bool)) {
        let end = address + bytes;
        let (mut run, mut is_written) = (address..address, true);
        let mut add = |part: Range<u64>, written: bool| {
            if written != is_written && !run.is_empty() {
                each(run.clone(), is_written);
                run.start = part.start;
            }
            (run.end, is_written) = (part.end, written);
        };
        let mut at = address;
        while at < end {
            let word = self.word(at);
            let Chunk { cells, background } = &self.chunks[word / CHUNK];
            let next = self.base + (word as u64 + 1) * 4;
            let init = match cells.get() {
                Some(cells) => u64::from(Cell(cells[word % CHUNK].load(Ordering::Relaxed)).init()),
                None => {
                    let init = u64::from(background.load(Ordering::Relaxed));
                    let chunk_end = self.base + ((word / CHUNK + 1) * CHUNK * 4) as u64;
                    if init == 0 || init == INIT {
                        add(at..chunk_end.min(end), init == INIT);
                        at = chunk_end;
                        continue;
                    }
                    init
                }
            };
            if init == 0 || init == INIT {
                add(at..next.min(end), init == INIT);
            } else {
                for byte in at..next.min(end) {
                    add(byte..byte + 1, init >> ((byte - self.base) % 4) & 1 != 0);
                }
            }
            at = next;
        }
        if !run.is_empty() {
            each(run, is_written);
        }
    }

    /// Resets a part: drops all records and, if known, what was written.
    pub(crate) fn begin_anew(&self, address: u64, bytes: u64) {
        let kept = if self.all_written.load(Ordering::Relaxed) { INIT } else { 0 };
        for word in self.word(address)..self.word(address + bytes) {
            self.cell(word).fetch_and(kept, Ordering::Relaxed);
        }
    }

    /// Drops all records of accesses, but not what was written.
    pub(crate) fn forget(&self) {
        for chunk in &self.chunks {
            for cell in chunk.cells.get().into_iter().flatten() {
                cell.fetch_and(INIT, Ordering::Relaxed);
            }
        }
    }
}
