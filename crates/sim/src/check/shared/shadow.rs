//! The shadow of one block's shared memory: the last writer and reader of each word, and the bytes
//! that were written at all.
//!
//! After FastTrack (Flanagan and Freund, 2009): the last writer, and readers until a write follows
//! them. A record packs into 32 bits ([`packed`](crate::check::shared::packed)); a number below the
//! floor, which every whole-block barrier raises, means "ordered before everything", so clearing is
//! free. Three records and a byte of initialisation make 13 bytes for 4 bytes of shared memory;
//! [`lines`](crate::check::shared::lines) has words that go together once more, and
//! [`split`](crate::check::shared::split) adds cells for bytes. Kept are the two last readers, of
//! different warps where there are two: enough to find a reader in another warp as long as only
//! whole-block barriers order warps. Once anything else does, readers pushed out go to a table.
//!
//! Deviations: a strong write does not clear the readers (it may be unordered with another strong
//! write), and pushes the write before it among them, so that a later plain access meets it. What
//! can be missed, besides what [`BlockOrder`] misses: the third-last warp that read a word before
//! the first named barrier or release of the launch; of several lanes of one warp that read a word,
//! all but two; a lane's weak access hidden by its own later strong one.

use std::collections::HashMap;

use crate::check::access::{Access, Kind, Lanes, Pattern, Sizes, Space, Values};
use crate::check::findings::{Findings, Found, Rule, Side};
use crate::check::order::block::{BlockOrder, Context};
use crate::check::order::clock::AGENTS;
use crate::check::order::observed::Observation;
use crate::check::shared::lines::Lines;
use crate::check::shared::packed::{ID_SHIFT, LANE, SPLIT, STRONG, Settled, same_thread, same_warp, warp_of};
#[cfg(target_arch = "x86_64")]
use crate::check::shared::rows;
use crate::check::shared::split::{Cell, SplitWords};
use crate::check::shared::visit::Visit;

/// The record of a lane for the word at `index` of a run.
#[inline(always)]
const fn me_at(base: u32, index: usize, shift: u32) -> u32 {
    base | (index as u32) >> shift
}

/// Hides a number of words from the compiler, which would otherwise unroll loops over 32 words
/// before it vectorises them, with poor results.
#[inline(always)]
fn vectorised(words: usize) -> usize {
    std::hint::black_box(words)
}

/// The highest record; they are below 2^31.
#[inline(always)]
fn newest(records: &[u32]) -> i32 {
    records.iter().fold(0, |most, &record| most.max(record as i32))
}

/// The shadow of one block's shared memory; reused from block to block.
#[derive(Debug)]
pub(crate) struct SharedShadow {
    pub(super) writers: Vec<u32>,
    pub(super) readers: Vec<u32>,
    pub(super) earlier: Vec<u32>,
    /// Four bits per word: bytes written in this block.
    pub(super) init: Vec<u8>,
    pub(super) lines: Lines,
    pub(super) split: SplitWords,
    /// Readers evicted from their word or byte while warps are partially ordered.
    pub(super) crowd: HashMap<u32, Vec<u32>>,
    pub(super) floor: u32,
    generation: u32,
    /// Sizes of strong accesses since the last barrier of the whole block.
    sizes: Sizes,
    /// Words at the start that count as written when a block starts.
    reserved: usize,
}

impl SharedShadow {
    /// A shadow for `bytes` bytes of shared memory, of which the system has written the first
    /// `reserved`.
    pub(crate) fn new(bytes: u32, reserved: u32) -> Self {
        let words = bytes.div_ceil(4) as usize;
        Self {
            writers: vec![0; words],
            readers: vec![0; words],
            earlier: vec![0; words],
            init: vec![0; words],
            lines: Lines::new(words),
            split: SplitWords::default(),
            crowd: HashMap::new(),
            floor: 0,
            generation: 0,
            sizes: Sizes::default(),
            reserved: reserved as usize / 4,
        }
    }

    /// Starts a block: nothing counts as written, unless `all_written`. The block's floor
    /// invalidates the records.
    pub(crate) fn begin(&mut self, all_written: bool) {
        self.begin_lines(!all_written);
        self.init.fill(if all_written { 0xf } else { 0 });
        self.init[..self.reserved].fill(0xf);
    }

    /// Returns true if nothing has written a byte.
    pub(in crate::check) fn is_unwritten(&self, offset: u32) -> bool {
        self.init[offset as usize / 4] >> (offset % 4) & 1 == 0
    }

    /// Marks a byte as unwritten, since the value stored there came from an unwritten byte.
    pub(in crate::check) fn leave_unwritten(&mut self, offset: u32) {
        self.spread(offset, offset + 1);
        self.init[offset as usize / 4] &= !(1 << (offset % 4));
    }

    /// Forgets what happened before the block's floor; true if the block had to raise it for lack
    /// of records.
    #[inline(never)]
    fn follow(&mut self, order: &mut BlockOrder) -> bool {
        self.floor = order.floor();
        // Proxy fences also ask about writers before the floor.
        for (place, word, cell) in self.split.join() {
            if (self.writers[word], self.readers[word]) == (SPLIT, place) {
                (self.writers[word], self.readers[word], self.earlier[word]) = (cell.writer, cell.reader, cell.earlier);
            }
        }
        self.crowd.clear();
        self.sizes = Sizes::default();
        order.observed.clear();
        if self.generation != order.generation() {
            self.generation = order.generation();
            self.lines.clear();
            self.writers.fill(0);
            self.readers.fill(0);
            self.earlier.fill(0);
        }
        order.take_forgotten()
    }

    /// Checks and records one warp access; `addresses` are byte offsets within bounds.
    #[inline(always)]
    pub(crate) fn access(
        &mut self,
        order: &mut BlockOrder,
        block: u32,
        access: &Access,
        addresses: &[u32; 32],
        values: Option<&Values<'_>>,
        findings: &mut Findings,
    ) {
        let pattern = Pattern::of(access.mask, addresses, access.bytes);
        self.access_of(order, block, access, (addresses, pattern), values, findings);
    }

    /// The same where the pattern of the addresses is known.
    ///
    /// What warps do most is inlined into the interpreter's handlers, and so compiled for the
    /// host's vector instructions.
    #[inline(always)]
    pub(crate) fn access_of(
        &mut self,
        order: &mut BlockOrder,
        block: u32,
        access: &Access,
        (addresses, pattern): (&[u32; 32], Pattern),
        values: Option<&Values<'_>>,
        findings: &mut Findings,
    ) {
        if access.mask == 0 {
            return;
        }
        let id = order.record(access.warp, access.instr, access.kind, access.element);
        if (self.floor != order.floor() || self.generation != order.generation()) && self.follow(order) {
            findings.add(forgets(block, access));
        }
        self.spread_under(access, addresses, pattern);
        let strong = if access.is_strong() { STRONG } else { 0 };
        if strong != 0 {
            self.sizes = self.sizes.with(Sizes::of(access));
        }
        let base = id << ID_SHIFT | strong | access.warp << 5;
        let settled = Settled {
            floor: order.floor() << ID_SHIFT,
            synced: order.synced(access.warp) << ID_SHIFT,
            closer: if access.kind == Kind::Read { STRONG } else { 0 },
        };
        let visit = Visit { order, access, addresses, values, block, settled, base };
        let first = addresses[access.mask.trailing_zeros() as usize] as usize / 4;
        let done = match (pattern, access.bytes) {
            _ if strong != 0 || access.kind == Kind::Atomic => false,
            (Pattern::Contiguous { lanes: 32 }, 4) => self.run(&visit, first, 32, 0),
            (Pattern::Contiguous { lanes: 32 }, 8) => self.run(&visit, first, 64, 1),
            (Pattern::Contiguous { lanes: 32 }, 16) => self.run(&visit, first, 128, 2),
            // The lanes in between leave the same traces as the last one.
            (Pattern::Uniform { first: low, last }, 4) if access.kind == Kind::Read => {
                self.read_word(&visit, first, base | low) && self.read_word(&visit, first, base | last)
            }
            _ => false,
        };
        if !done {
            self.other_access(&visit, pattern, findings);
        }
    }

    /// Notes which strong writes the lanes of a strong read have observed.
    pub(in crate::check) fn observe(&mut self, order: &mut BlockOrder, access: &Access, offsets: &[u32; 32]) {
        self.spread_under(access, offsets, Pattern::Scattered);
        let floor = order.floor() << ID_SHIFT;
        for lane in Lanes(access.mask) {
            let first = offsets[lane as usize] / 4;
            for word in first..first + access.bytes.div_ceil(4) {
                let at = word as usize;
                let Some(&whole) = self.writers.get(at) else { continue };
                let is_split = whole == SPLIT && self.earlier[at] == self.floor;
                let writers = if is_split { self.split.writers(self.readers[at]) } else { [whole; 4] };
                let me = access.warp << 5 | lane;
                for (n, &writer) in writers.iter().enumerate() {
                    let is_strong = writer >= floor && writer & STRONG != 0 && writer != SPLIT;
                    if is_strong && !same_thread(writer, me) && !writers[..n].contains(&writer) {
                        let read = order.record(access.warp, access.instr, access.kind, access.element);
                        order.observed.note(word, Observation { writer, read, warp: access.warp, lanes: 1 << lane });
                    }
                }
            }
        }
    }

    /// Records that a copy has written whole words for the lanes of an access, over all that was
    /// there.
    pub(in crate::check) fn landed(&mut self, order: &mut BlockOrder, access: &Access, addresses: &[u32; 32]) {
        let id = order.record(access.warp, access.instr, access.kind, access.element);
        if self.floor != order.floor() || self.generation != order.generation() {
            // Forgotten records are reported at the next access.
            self.follow(order);
        }
        self.spread_under(access, addresses, Pattern::Scattered);
        for lane in Lanes(access.mask) {
            let first = addresses[lane as usize] as usize / 4;
            let words = first..first + access.bytes as usize / 4;
            self.writers[words.clone()].fill(id << ID_SHIFT | access.warp << 5 | lane);
            self.readers[words.clone()].fill(0);
            self.earlier[words.clone()].fill(0);
            self.init[words].fill(0xf);
        }
    }

    /// Records that a bulk copy, record `id` of `agent`, has written a range of whole words over
    /// all that was there.
    pub(in crate::check) fn landed_range(
        &mut self,
        order: &mut BlockOrder,
        (id, agent): (u32, u32),
        (start, end): (u32, u32),
    ) {
        if self.floor != order.floor() || self.generation != order.generation() {
            self.follow(order);
        }
        self.spread(start, end);
        let words = start as usize / 4..end as usize / 4;
        self.writers[words.clone()].fill(id << ID_SHIFT | agent << 5);
        self.readers[words.clone()].fill(0);
        self.earlier[words.clone()].fill(0);
        self.init[words].fill(0xf);
    }

    /// The first access by the generic proxy to a range that an operation of the async proxy, begun
    /// by `warp`, comes after without a proxy fence: the rule, the address, and who made the
    /// access, as far as that is still known.
    pub(in crate::check) fn unfenced(
        &mut self,
        order: &BlockOrder,
        warp: u32,
        kind: Kind,
        (start, end): (u32, u32),
    ) -> Option<(Rule, u32, Option<Side>)> {
        self.spread(start, end);
        let is_bare = |record: u32| {
            let is_record = record != 0 && record != SPLIT && warp_of(record) < AGENTS;
            is_record
                && !order.proxy_records.contains(record >> ID_SHIFT)
                && !order.is_proxied(record >> ID_SHIFT, warp_of(record), warp)
        };
        let mut fenced = 0;
        for word in start as usize / 4..end as usize / 4 {
            // Neighbouring words mostly belong to one access.
            if kind == Kind::Read && self.writers[word] == fenced && fenced != SPLIT {
                continue;
            }
            fenced = self.writers[word];
            let is_split = self.writers[word] == SPLIT;
            let writers = if is_split { self.split.writers(self.readers[word]) } else { [self.writers[word]; 4] };
            let others = if kind == Kind::Read || is_split { [0; 2] } else { [self.readers[word], self.earlier[word]] };
            let rule = if kind == Kind::Read { Rule::UnfencedRead } else { Rule::UnfencedWrite };
            if let Some(record) = writers.into_iter().chain(others).find(|&record| is_bare(record)) {
                let side = |c: Context| Side { instr: c.instr, block: 0, warp: warp_of(record), lane: record & LANE };
                return Some((rule, word as u32 * 4, order.context_of(record >> ID_SHIFT).map(side)));
            }
        }
        None
    }

    /// An access that is not among the most frequent ones, or needs a closer look.
    #[inline(never)]
    fn other_access(&mut self, visit: &Visit<'_>, pattern: Pattern, findings: &mut Findings) {
        let Access { mask, bytes, kind, .. } = *visit.access;
        let is_strong = visit.access.is_strong();
        let mask = match pattern {
            Pattern::Contiguous { lanes } if lanes < 32 && bytes >= 4 && kind != Kind::Atomic && !is_strong => {
                let first = visit.addresses[0] as usize / 4;
                if self.run(visit, first, (lanes * bytes / 4) as usize, bytes.trailing_zeros() - 2) {
                    return;
                }
                mask
            }
            Pattern::Uniform { first, last } if kind == Kind::Read || is_strong => 1 << first | 1 << last,
            // Stores of one value by all lanes are told only where they are asked for.
            Pattern::Uniform { first, last } if findings.skips_same_value && visit.stores_one_value() => {
                1 << first | 1 << last
            }
            Pattern::Contiguous { .. } | Pattern::Uniform { .. } | Pattern::Scattered => mask,
        };
        self.lane_by_lane(visit, mask, findings);
    }

    /// A plain access to a run of whole words; `false`, with nothing changed, if any needs a closer
    /// look.
    #[inline(always)]
    fn run(&mut self, visit: &Visit<'_>, first: usize, words: usize, shift: u32) -> bool {
        #[cfg(target_arch = "x86_64")]
        if words.is_multiple_of(32) && rows::can_run() {
            let run = first..first + words;
            let mut rows = rows::Rows {
                writers: &mut self.writers[run.clone()],
                readers: &mut self.readers[run.clone()],
                earlier: &mut self.earlier[run.clone()],
                init: &mut self.init[run],
            };
            return rows.access(visit, shift);
        }
        match visit.access.kind {
            Kind::Read => self.read_run(visit, first, words, shift),
            Kind::Write | Kind::Atomic => self.write_run(visit, first, words, shift),
        }
    }

    #[inline(always)]
    fn read_run(&mut self, visit: &Visit<'_>, first: usize, words: usize, shift: u32) -> bool {
        let Visit { settled, base, .. } = *visit;
        let run = first..first + vectorised(words);
        let (writers, init) = (&self.writers[run.clone()], &self.init[run.clone()]);
        let (readers, earlier) = (&mut self.readers[run.clone()], &mut self.earlier[run]);
        let mut fine = newest(writers) < settled.floor as i32;
        if !fine {
            fine = true;
            for (i, &writer) in writers.iter().enumerate() {
                fine &= settled.holds(writer, me_at(base, i, shift));
            }
        }
        let mut missing = 0;
        for &bytes in init {
            missing |= bytes ^ 0xf;
        }
        if !fine || missing != 0 {
            return false;
        }
        if newest(readers) < settled.floor as i32 {
            for (i, reader) in readers.iter_mut().enumerate() {
                *reader = me_at(base, i, shift);
            }
            return true;
        }
        let valid = |record: u32| record as i32 >= settled.floor as i32;
        if visit.order.partial_order() {
            let mut pushes_out = false;
            for (i, (&reader, &before)) in readers.iter().zip(&*earlier).enumerate() {
                let me = me_at(base, i, shift);
                pushes_out |=
                    valid(before) & !same_warp(before, me) & !same_warp(before, reader) & !same_warp(reader, me);
            }
            if pushes_out {
                return false;
            }
        }
        for (i, (reader, before)) in readers.iter_mut().zip(earlier).enumerate() {
            let me = me_at(base, i, shift);
            let keeps = !valid(*reader) | same_thread(*reader, me) | (same_warp(*reader, me) & valid(*before));
            *before = if keeps { *before } else { *reader };
            *reader = me;
        }
        true
    }

    #[inline(always)]
    fn write_run(&mut self, visit: &Visit<'_>, first: usize, words: usize, shift: u32) -> bool {
        let Visit { settled, base, .. } = *visit;
        let run = first..first + vectorised(words);
        let writers = &mut self.writers[run.clone()];
        let (readers, earlier) = (&self.readers[run.clone()], &self.earlier[run.clone()]);
        let mut fine = newest(writers).max(newest(readers)).max(newest(earlier)) < settled.floor as i32;
        if !fine {
            fine = true;
            for (i, ((&writer, &reader), &before)) in writers.iter().zip(readers).zip(earlier).enumerate() {
                let me = me_at(base, i, shift);
                fine &= settled.holds(writer, me) & settled.holds(reader, me) & settled.holds(before, me);
            }
        }
        if !fine {
            return false;
        }
        for (i, writer) in writers.iter_mut().enumerate() {
            *writer = me_at(base, i, shift);
        }
        self.init[run].fill(0xf);
        true
    }

    fn lane_by_lane(&mut self, visit: &Visit<'_>, mask: u32, findings: &mut Findings) {
        let access = visit.access;
        let words = access.bytes as usize / 4;
        match access.kind {
            _ if words == 0 => self.each_lane(visit, mask, findings, Self::part_word),
            _ if access.is_strong() => self.each_lane(visit, mask, findings, |shadow, visit, address, me| {
                let first = address as usize / 4;
                (first..first + words).all(|word| shadow.strong_word(visit, word, me))
            }),
            Kind::Read => self.each_lane(visit, mask, findings, |shadow, visit, address, me| {
                let first = address as usize / 4;
                (first..first + words).all(|word| shadow.read_word(visit, word, me))
            }),
            Kind::Write | Kind::Atomic => self.each_lane(visit, mask, findings, |shadow, visit, address, me| {
                let first = address as usize / 4;
                (first..first + words).all(|word| shadow.write_word(visit, word, me))
            }),
        }
    }

    /// Calls `quick` with the address and the record of each lane, and judges those lanes for which
    /// it declines.
    #[inline(always)]
    fn each_lane(
        &mut self,
        visit: &Visit<'_>,
        mask: u32,
        findings: &mut Findings,
        quick: impl Fn(&mut Self, &Visit<'_>, u32, u32) -> bool,
    ) {
        for lane in Lanes(mask) {
            if !quick(self, visit, visit.addresses[lane as usize], visit.base | lane) {
                self.judge_lane(visit, lane, findings);
            }
        }
    }

    /// A plain read of one word; `false`, with nothing changed, if it needs a closer look.
    #[inline(always)]
    fn read_word(&mut self, visit: &Visit<'_>, word: usize, me: u32) -> bool {
        let len = self.writers.len();
        let (readers, earlier) = (&mut self.readers[..len], &mut self.earlier[..len]);
        if !visit.settled.holds_one(self.writers[word], me) || self.init[..len][word] != 0xf {
            return false;
        }
        let mut cell = Cell { writer: 0, reader: readers[word], earlier: earlier[word] };
        if visit.insert_reader(&mut cell, me).is_some() && visit.order.partial_order() {
            return false;
        }
        readers[word] = cell.reader;
        earlier[word] = cell.earlier;
        true
    }

    /// A plain write of one word; `false`, with nothing changed, if it needs a closer look.
    #[inline(always)]
    fn write_word(&mut self, visit: &Visit<'_>, word: usize, me: u32) -> bool {
        let (settled, len) = (visit.settled, self.writers.len());
        let clear = settled.holds_one(self.writers[word], me)
            && settled.holds_one(self.readers[..len][word], me)
            && settled.holds_one(self.earlier[..len][word], me);
        if clear {
            self.writers[word] = me;
            self.init[..len][word] = 0xf;
        }
        clear
    }

    /// A strong access to one word among strong ones; `false`, with nothing changed, if it needs a
    /// closer look.
    #[inline(always)]
    fn strong_word(&mut self, visit: &Visit<'_>, word: usize, me: u32) -> bool {
        let mut cell = Cell { writer: self.writers[word], reader: self.readers[word], earlier: self.earlier[word] };
        let floor = visit.settled.floor;
        let harmless = |record: u32| record < floor || (record & STRONG != 0 && record != SPLIT);
        let is_unsynced = |record: u32| {
            record >= floor.max(visit.settled.synced)
                && same_warp(record, me)
                && !same_thread(record, me)
                && visit.access.mask >> (record & LANE) & 1 != 0
        };
        let relies_on_lockstep = visit.access.is_volatile()
            && match visit.access.kind {
                Kind::Read => is_unsynced(cell.writer),
                Kind::Write | Kind::Atomic => is_unsynced(cell.reader) || is_unsynced(cell.earlier),
            };
        if self.sizes.are_mixed()
            || !(harmless(cell.writer) && harmless(cell.reader) && harmless(cell.earlier))
            || self.init[word] != 0xf
            || relies_on_lockstep
        {
            return false;
        }
        let reads = visit.access.kind == Kind::Read;
        let new = if reads { me } else { cell.writer };
        if reads || (new >= floor && !same_thread(new, me)) {
            let pushed_out = visit.insert_reader(&mut cell, new);
            if pushed_out.is_some() && visit.order.partial_order() {
                return false;
            }
        }
        self.writers[word] = if reads { cell.writer } else { me };
        self.readers[word] = cell.reader;
        self.earlier[word] = cell.earlier;
        true
    }

    /// A plain access to part of a word that is split already; `false`, with nothing changed, if it
    /// needs a closer look.
    #[inline(always)]
    fn part_word(&mut self, visit: &Visit<'_>, address: u32, me: u32) -> bool {
        let (access, word) = (visit.access, address as usize / 4);
        if access.is_strong() || self.writers[word] != SPLIT || self.earlier[word] != self.floor {
            return false;
        }
        let first = address as usize % 4;
        let bytes = first..first + access.bytes as usize;
        let mask = (((1u32 << access.bytes) - 1) << first) as u8;
        let cells = &mut self.split.bytes(self.readers[word])[bytes];
        let holds = |record| visit.settled.holds_one(record, me);
        if access.kind != Kind::Read {
            if !cells.iter().all(|cell| holds(cell.writer) && holds(cell.reader) && holds(cell.earlier)) {
                return false;
            }
            for cell in cells {
                cell.writer = me;
            }
            self.init[word] |= mask;
            return true;
        }
        if self.init[word] & mask != mask || visit.order.partial_order() || !cells.iter().all(|cell| holds(cell.writer))
        {
            return false;
        }
        for cell in cells {
            visit.insert_reader(cell, me);
        }
        true
    }

    pub(super) const fn generation(&self) -> u32 {
        self.generation
    }

    /// Bytes of shadow state, split words and pushed-out readers left out.
    #[cfg(test)]
    pub(crate) fn footprint(&self) -> usize {
        self.writers.len() * 13 + self.lines.footprint()
    }
}

/// The finding that a block forgot its accesses; it has no address, which in global memory is 0.
const fn forgets(block: u32, access: &Access) -> Found {
    let this = Side { instr: access.instr, block, warp: access.warp, lane: access.mask.trailing_zeros() };
    Found { rule: Rule::BlockForgets, space: Space::Global, address: 0, this, other: None, count: 1 }
}
