//! Judge of accesses to global memory: races between blocks and inside one, and reads of
//! uninitialised bytes.
//!
//! The shadow and what can be missed are described in [`global`](crate::check::global::shadow), the
//! order in [`grid`](crate::check::order::grid).

use std::sync::atomic::{Ordering, fence};

use crate::check::access::{Access, Kind, Lanes, Pattern, Space, Values, differ_by_rounding, overlap_in_part};
use crate::check::findings::{Findings, Found, Rule, Side};
use crate::check::global::numbers::{BlockRecords, Own};
use crate::check::global::observed::Observation;
use crate::check::global::quick::{Reads, after_read, after_write, read_word, same_but_lanes, strong_word, write_word};
use crate::check::global::readers::each_with_lane;
use crate::check::global::records::{LaunchCheck, PARTS, Reached, Record};
use crate::check::global::shadow::{ByteWriter, Cell, GlobalShadow};
use crate::check::order::block::{BlockOrder, Ordered};
use crate::check::order::grid::GridOrder;
use crate::check::order::reach::{Grade, Moment};
use crate::exec::lanes;

/// All bytes of a word.
pub(in crate::check) const WORD: u32 = 0xf;

/// One warp access to one allocation, with everything needed to judge it.
pub(in crate::check) struct Visit<'a> {
    pub(in crate::check) launch: &'a LaunchCheck,
    pub(in crate::check) order: &'a mut BlockOrder,
    pub(in crate::check) grid: &'a mut GridOrder,
    pub(in crate::check) records: &'a mut BlockRecords,
    pub(in crate::check) shadow: &'a GlobalShadow,
    pub(in crate::check) access: &'a Access,
    pub(in crate::check) addresses: &'a [u64; 32],
    pub(in crate::check) values: Option<&'a Values<'a>>,
    pub(in crate::check) findings: &'a mut Findings,
    pub(in crate::check) block: u32,
    /// True for a bulk copy, in the async proxy.
    pub(in crate::check) by_proxy: bool,
    /// True for a copy, which is not over with its instruction.
    pub(in crate::check) is_copy: bool,
}

/// An earlier access recorded in a cell, by another block or inside this one.
#[derive(Debug, Clone, Copy)]
struct Earlier {
    record: Record,
    lane: u32,
    /// True if the lane is exact; false if it is one of those that share the word.
    is_exact: bool,
    /// Bytes of the word in question.
    bytes: u32,
}

/// A rule that one access broke at one word.
#[derive(Debug, Clone, Copy)]
struct Conflict {
    rule: Rule,
    other: Option<Side>,
    byte: u32,
}

impl<'a> Visit<'a> {
    /// Checks and records the access.
    #[inline(always)]
    pub(in crate::check) fn run(&mut self) {
        let &Access { mask, bytes, kind, .. } = self.access;
        let addresses = self.addresses;
        if mask == 0 {
            return;
        }
        self.records.follow(self.order);
        let pattern = Pattern::of(mask, addresses, bytes);
        let rows = match (pattern, bytes) {
            _ if self.access.is_strong() || kind == Kind::Atomic => 0,
            (Pattern::Contiguous { lanes: 32 }, 4) => 1,
            (Pattern::Contiguous { lanes: 32 }, 8) => 2,
            (Pattern::Contiguous { lanes: 32 }, 16) => 4,
            _ => 0,
        };
        if rows == 0 {
            self.other_access(addresses, pattern);
        } else {
            self.rows(self.shadow.word(addresses[0]), rows);
        }
    }

    /// Rows of 32 whole words, by lane 0 and on, none of them strong. Inlined into the
    /// interpreter's handlers, and so compiled for the host's vector instructions.
    #[inline(always)]
    fn rows(&mut self, first: usize, rows: u32) {
        let id = self.id(WORD, 4);
        let shift = rows.trailing_zeros();
        for row in 0..rows {
            let lane = |i| (row * 32 + i) >> shift;
            let at = first + row as usize * 32;
            if !self.row(at, id, lane) {
                self.words(at, 32, id, lane);
            }
        }
    }

    /// Judges a row of 32 whole words with the same history, except for lanes; returns `false`,
    /// with nothing changed, for any other.
    #[inline(always)]
    fn row(&mut self, first: usize, id: u32, lane: impl Fn(u32) -> u32) -> bool {
        let Some(cells) = self.shadow.run(first, 32).first_chunk::<32>() else { return false };
        let present = lanes::load_cells(cells);
        fence(Ordering::Acquire);
        let Some(before) = same_but_lanes(&present) else { return false };
        let same_lanes = |of: fn(Cell) -> u32| (0u32..).zip(&present).all(|(i, &cell)| of(Cell(cell)) == lane(i));
        let (same_writers, same_readers) = (|| same_lanes(Cell::writer_lane), || same_lanes(Cell::reader_lane));
        let are_ahead = |turn| (0u32..).zip(&present).all(|(i, &cell)| Cell(cell).is_reader_ahead(lane(i), turn));
        let after = match self.access.kind {
            Kind::Read => after_read(before, 0, &self.reads(id), are_ahead, same_writers),
            Kind::Write | Kind::Atomic => {
                after_write(before, (id, 0), self.own(), self.launch.first, same_writers, same_readers)
            }
        };
        let Some(after) = after else { return false };
        if after == before {
            return true;
        }
        let mut cells_after = [0; 32];
        if self.access.kind == Kind::Read {
            // Without a writer there is no writer lane.
            let keeps = after.writer() != 0;
            for ((i, new), &old) in (0u32..).zip(&mut cells_after).zip(&present) {
                *new = after.at_reader_lane(lane(i)).with_writer_lane_of(Cell(if keeps { old } else { 0 })).0;
            }
        } else {
            for (i, new) in (0u32..).zip(&mut cells_after) {
                *new = after.at_writer_lane(lane(i)).0;
            }
        }
        fence(Ordering::Release);
        lanes::store_cells(cells, &cells_after);
        true
    }

    /// Any other pattern.
    #[inline(never)]
    fn other_access(&mut self, addresses: &[u64; 32], pattern: Pattern) {
        let &Access { mask, kind, .. } = self.access;
        let weak = !self.access.is_strong();
        match pattern {
            Pattern::Contiguous { lanes } if weak && kind != Kind::Atomic => self.contiguous(addresses[0], lanes),
            // Lanes may collide.
            Pattern::Uniform { first, last } if weak && kind == Kind::Write && first != last => {
                self.lanes(mask, addresses);
            }
            // The lanes in between leave the same traces as the first and the last one.
            Pattern::Uniform { first, last } if weak && self.may_race_inside(addresses[first as usize]) => {
                self.lanes(1 << first | 1 << last, addresses);
            }
            Pattern::Uniform { first, .. } => self.lanes(1 << first, addresses),
            Pattern::Contiguous { .. } | Pattern::Scattered => self.lanes(mask, addresses),
        }
    }

    /// Returns true if the block itself has touched the word of an address in a way that needs
    /// judging.
    fn may_race_inside(&self, address: u64) -> bool {
        let cell = Cell(self.shadow.cell(self.shadow.word(address)).load(Ordering::Acquire));
        let is_open = |id: u32| self.own().has(id) && !self.own().has_before(id, || false);
        is_open(cell.writer()) || (self.access.kind != Kind::Read && is_open(cell.reader()))
    }

    /// The block's numbers for the warp.
    #[inline(always)]
    pub(super) fn own(&self) -> Own<'a> {
        let warp = self.access.warp;
        let own = self.records.own(self.launch, warp, self.order.synced(warp));
        if self.by_proxy || !self.shadow.is_within_blocks() { own.all_settled() } else { own }
    }

    fn lanes(&mut self, mask: u32, addresses: &[u64; 32]) {
        let bytes = self.access.bytes;
        if bytes < 4 {
            for lane in Lanes(mask) {
                self.part_of_word(addresses[lane as usize], bytes, lane);
            }
            return;
        }
        let id = self.id(WORD, 4);
        let (shadow, words) = (self.shadow, bytes as usize / 4);
        let (own, from, mut reads) = (self.own(), self.launch.first, self.reads(id));
        let Access { kind, .. } = *self.access;
        let (strong, wide) = (self.access.is_strong(), self.access.is_strong_between_blocks());
        let mixed = strong && self.launch.mixes_sizes(self.access);
        let mut chunk = shadow.chunk(shadow.word(addresses[mask.trailing_zeros() as usize]));
        for lane in Lanes(mask) {
            let first = shadow.word(addresses[lane as usize]);
            for word in first..first + words {
                let cell = chunk.cell(word).unwrap_or_else(|| {
                    chunk = shadow.chunk(word);
                    shadow.cell(word)
                });
                let done = match kind {
                    Kind::Write | Kind::Atomic if strong => !mixed && strong_word(cell, id, lane, own, from, wide),
                    Kind::Read => read_word(cell, lane, &reads),
                    Kind::Write | Kind::Atomic => write_word(cell, id, lane, own, from),
                };
                if !done {
                    self.slow_word(word, id, lane);
                    reads = self.reads(id);
                }
            }
        }
    }

    /// Judges weak accesses to consecutive addresses from lane 0 on.
    fn contiguous(&mut self, address: u64, lanes: u32) {
        let bytes = self.access.bytes;
        if bytes >= 4 {
            let id = self.id(WORD, 4);
            let shift = bytes.trailing_zeros() - 2;
            self.words(self.shadow.word(address), (lanes * bytes / 4) as usize, id, |i| i >> shift);
            return;
        }
        // Whole words are recorded under their first lane, the ends under their own.
        let end = address + u64::from(lanes * bytes);
        let (first, last) = (address.next_multiple_of(4).min(end), (end & !3).max(address));
        let mut at = address;
        if first < last {
            self.ends(&mut at, first, address);
            let id = self.id(WORD, bytes);
            let lane = ((first - address) as u32) / bytes;
            let step = 4 / bytes;
            self.words(self.shadow.word(first), ((last - first) / 4) as usize, id, |i| lane + i * step);
            at = last;
        }
        self.ends(&mut at, end, address);
    }

    fn ends(&mut self, at: &mut u64, end: u64, base: u64) {
        let bytes = self.access.bytes;
        while *at < end {
            self.part_of_word(*at, bytes, ((*at - base) as u32) / bytes);
            *at += u64::from(bytes);
        }
    }

    /// Part of a word.
    fn part_of_word(&mut self, address: u64, bytes: u32, lane: u32) {
        let mask = ((1 << bytes) - 1) << (address % 4);
        self.judge(self.shadow.word(address), mask, lane, 0, 4);
    }

    /// A run of whole words.
    fn words(&mut self, first: usize, count: usize, id: u32, lane: impl Fn(u32) -> u32) {
        let (mut at, end) = (first, first + count);
        while at < end {
            let shadow = self.shadow;
            let cells = shadow.run(at, end - at);
            let done = (at - first) as u32;
            match self.access.kind {
                Kind::Read => {
                    let mut reads = self.reads(id);
                    for (i, cell) in (0u32..).zip(cells) {
                        if !read_word(cell, lane(done + i), &reads) {
                            self.slow_word(at + i as usize, id, lane(done + i));
                            reads = self.reads(id);
                        }
                    }
                }
                Kind::Write | Kind::Atomic => {
                    let (own, from) = (self.own(), self.launch.first);
                    for (i, cell) in (0u32..).zip(cells) {
                        if !write_word(cell, id, lane(done + i), own, from) {
                            self.slow_word(at + i as usize, id, lane(done + i));
                        }
                    }
                }
            }
            at += cells.len();
        }
    }

    /// Context of quick reads under the number `id`.
    #[inline(always)]
    fn reads(&self, id: u32) -> Reads<'a> {
        Reads {
            id,
            own: self.own(),
            from: self.launch.first,
            keeps: self.launch.overlap.kept_from(self.launch.first),
            lists: self.launch.orders_blocks,
            exact: !self.records.scattered,
            block: self.block,
            joined: self.records.lists.last_by(id),
        }
    }

    #[inline(never)]
    fn slow_word(&mut self, word: usize, id: u32, lane: u32) {
        let lane_bytes = self.access.bytes.min(4);
        self.judge(word, WORD, lane, id, lane_bytes);
    }

    pub(super) fn id(&mut self, bytes: u32, lane_bytes: u32) -> u32 {
        let record = Record {
            instr: self.access.instr,
            at: self.grid.moment(self.access.warp),
            bytes,
            kind: self.access.kind,
            strength: Reached::of(self.access),
            lane_bytes,
            element: self.access.element,
            by_proxy: self.by_proxy,
            is_late: self.grid.dependents_may_run(),
            time: if self.is_copy { 0 } else { self.order.time(self.access.warp) },
        };
        self.records.id(self.launch, &record, self.order.event(self.access.warp))
    }

    /// Returns true if a number is of this launch and not the mark of a split word.
    pub(super) const fn is_record(&self, id: u32) -> bool {
        id > self.launch.first
    }

    /// The record of another block in this launch.
    pub(super) fn foreign(&self, id: u32) -> Option<Record> {
        if !self.is_record(id) || self.own().has(id) {
            return None;
        }
        self.launch.get(id).filter(|record| record.at.block != self.block)
    }

    /// The record of another block, or of this one if it may race with the access.
    pub(super) fn rival(&self, id: u32) -> Option<Record> {
        let judges_inside = !self.by_proxy && self.shadow.is_within_blocks() && !self.records.is_settled(id);
        if !judges_inside {
            return self.foreign(id);
        }
        self.launch.get(id).filter(|record| self.is_record(id) && (record.at.block != self.block || record.time != 0))
    }

    /// The general case: one lane and the bytes of `mask` in one word. `id` is the record of a
    /// whole word, or 0.
    fn judge(&mut self, word: usize, mask: u32, lane: u32, id: u32, lane_bytes: u32) {
        let shadow = self.shadow;
        let address = shadow.base() + word as u64 * 4;
        let place = shadow.cell(word);
        let mut before = Cell(place.load(Ordering::Acquire));
        let conflict = self.conflict(before, mask, (lane, lane_bytes), address);
        let missing = if self.access.kind == Kind::Write { 0 } else { mask & !before.init() };
        loop {
            let after = self.recorded(before, mask, lane, id, address);
            if before.init() == WORD {
                place.store(after.0, Ordering::Release);
                break;
            }
            match place.compare_exchange(before.0, after.0, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => break,
                Err(now) => before = Cell(now),
            }
        }
        let uninitialized =
            (missing != 0).then(|| Conflict { rule: Rule::Uninitialized, other: None, byte: missing.trailing_zeros() });
        for Conflict { rule, other, byte } in uninitialized.into_iter().chain(conflict) {
            let lane = (lane + byte / lane_bytes) % 32;
            self.findings.add(Found {
                rule,
                space: Space::Global,
                address: address + u64::from(byte),
                this: Side { instr: self.access.instr, block: self.block, warp: self.access.warp, lane },
                other,
                count: 1,
            });
        }
    }

    /// The worst conflict with the accesses in the cell.
    fn conflict(&self, cell: Cell, mask: u32, lanes: (u32, u32), address: u64) -> Option<Conflict> {
        let lane = lanes.0;
        let reads = self.access.kind == Kind::Read;
        let mine = Reached::of(self.access);
        // True if strong writes need a closer look.
        let mixed = self.access.is_strong() && (self.launch.mixes_sizes(self.access) || self.launch.has_cluster_scope);
        let mut worst: Option<Conflict> = None;
        let mut look = |found: Option<Conflict>| {
            if let Some(new) = found
                && worst.is_none_or(|old| new.rule.severity() > old.rule.severity())
            {
                worst = Some(new);
            }
        };
        let mut look_writer = |id, other, strong, bytes| {
            if !(strong && mine == Reached::Wide && !mixed)
                && let Some(record) = self.rival(id)
                && !self.has_observed(id, lane, address)
            {
                look(self.meets(Earlier { record, lane: other, is_exact: true, bytes }, lanes));
            }
        };
        if cell.writer() == self.launch.first {
            let writers = self.launch.split.get(address);
            for byte in Lanes(mask) {
                let ByteWriter { id, lane: other, strong } = writers[byte as usize];
                look_writer(id, other, strong, 1 << byte);
            }
        } else {
            look_writer(cell.writer(), cell.writer_lane(), cell.is_strong(), mask);
        }
        // A reader of a value that was stored unordered before, and is stored again, has read the
        // final value.
        let repeats = worst.is_some_and(|conflict| conflict.rule == Rule::SameValue);
        let mut look = |found: Option<Conflict>| {
            if let Some(new) = found
                && !(repeats && new.rule == Rule::WriteAfterRead)
                && worst.is_none_or(|old| new.rule.severity() > old.rule.severity())
            {
                worst = Some(new);
            }
        };
        // Among readers there may be a write that a strong one followed.
        if self.is_record(cell.reader()) && (!reads || cell.is_strong()) {
            let builds_on_them = self.writer_has_observed(cell, lane, address);
            for (id, other) in each_with_lane(self.launch, cell.reader(), cell.reader_lane()) {
                if let Some(record) = self.rival(id)
                    && !(reads && record.kind == Kind::Read)
                    && (record.kind == Kind::Read || !(builds_on_them || self.has_observed(id, lane, address)))
                {
                    let (is_exact, lane) = (other.is_some(), other.unwrap_or(cell.reader_lane()));
                    look(self.meets(Earlier { record, lane, is_exact, bytes: mask }, lanes));
                }
            }
        }
        // Another block has read some byte of the word, and this one knows nothing of any other.
        let unknown_reader = !reads
            && !self.access.is_strong()
            && mask == WORD
            && cell.has_several_readers()
            && self.is_record(cell.reader())
            && self.launch.readers(cell.reader()).is_none()
            && !self.grid.is_informed(self.access.warp);
        if worst.is_none() && unknown_reader {
            worst = Some(Conflict { rule: Rule::WriteAfterRead, other: None, byte: 0 });
        }
        worst
    }

    /// Strength of the order between an access of another thread and that of `lane`, if it is
    /// ordered before.
    fn knows(&self, at: Moment, time: u32, lanes: u32, lane: u32) -> Option<Grade> {
        let warp = self.access.warp;
        let is_inside = at.block == self.block
            && Lanes(lanes).any(|other| self.order.ordered(time, at.warp, other, warp, lane) == Ordered::Yes);
        if is_inside { Some(Grade::Wide) } else { self.grid.knows((warp, 1 << lane), at, lanes) }
    }

    /// Returns true if a strong read that happened before the access of `lane` has observed a write
    /// of the word.
    fn has_observed(&self, writer: u32, lane: u32, address: u64) -> bool {
        self.launch.observed.any(address, writer, |seen| {
            let Observation { at, time, lanes, .. } = *seen;
            self.knows(at, time, lanes, lane) == Some(Grade::Wide)
        })
    }

    /// Returns true if the last writer of the word is an atomic that comes before the access of
    /// `lane`: then so do the writes that it built on.
    fn writer_has_observed(&self, cell: Cell, lane: u32, address: u64) -> bool {
        let writer = cell.writer();
        let Some(record) = self.launch.get(writer).filter(|_| self.is_record(writer) && cell.is_strong()) else {
            return false;
        };
        let is_before = || {
            let is_settled = record.at.block == self.block && self.records.is_settled(writer);
            is_settled || self.knows(record.at, record.time, 1 << cell.writer_lane(), lane) == Some(Grade::Wide)
        };
        record.kind == Kind::Atomic && (is_before() || self.has_observed(writer, lane, address))
    }

    /// The worst race with an earlier access, for the lanes from the first one on that have
    /// `lane_bytes` bytes of the word each.
    fn meets(&self, earlier: Earlier, (first, lane_bytes): (u32, u32)) -> Option<Conflict> {
        let bytes = earlier.record.bytes & earlier.bytes;
        let are_alike = lane_bytes >= 4 && earlier.record.lane_bytes >= 4;
        let conflicts = Lanes(bytes).take(if are_alike { 1 } else { 4 }).filter_map(|byte| {
            let lane = (first + byte / lane_bytes) % 32;
            let is_inside = earlier.record.at.block == self.block;
            if is_inside { self.meets_inside(earlier, byte, lane) } else { self.meets_foreign(earlier, byte, lane) }
        });
        conflicts.reduce(|worst, new| if new.rule.severity() > worst.rule.severity() { new } else { worst })
    }

    /// Conflict of the access of `lane` to a byte of the word with an earlier one of another block.
    fn meets_foreign(&self, earlier: Earlier, byte: u32, lane: u32) -> Option<Conflict> {
        let mine = Reached::of(self.access);
        let record = earlier.record;
        let both_wide = self.reach_each_other(&record);
        if both_wide && !self.overlaps_in_part(&record) {
            return None;
        }
        let other_lane = (earlier.lane + byte / record.lane_bytes) % 32;
        let lanes = if earlier.is_exact && record.lane_bytes != PARTS { 1u32.checked_shl(other_lane) } else { None };
        let by = (self.access.warp, 1 << lane);
        let rule = match self.grid.knows(by, record.at, lanes.unwrap_or(0)) {
            Some(Grade::Wide) => return None,
            Some(Grade::Unshared) => Rule::UnsharedAcquire,
            Some(Grade::Lockstep) => Rule::UngatheredLanes,
            Some(Grade::Narrow) => Rule::InsufficientScope,
            None if both_wide => Rule::MixedSizes,
            None if self.grid.lacks_acquire(self.access.warp, record.at, lanes.unwrap_or(0)) => Rule::MissingAcquire,
            None if record.strength != Reached::Weak && mine != Reached::Weak => Rule::InsufficientScope,
            None => self.hazard(record.kind, lane),
        };
        let Moment { block, warp, .. } = record.at;
        let other = Side { instr: record.instr, block, warp, lane: other_lane };
        Some(Conflict { rule, other: Some(other), byte })
    }

    /// Returns true if this access and one of another block are strong, and include each other's
    /// thread in their scopes.
    pub(super) fn reach_each_other(&self, other: &Record) -> bool {
        match (other.strength, Reached::of(self.access)) {
            (Reached::Wide, Reached::Wide) => true,
            (Reached::Near | Reached::Wide, Reached::Near | Reached::Wide) => self.grid.is_near(other.at.block),
            _ => false,
        }
    }

    /// Returns true if this strong access and another one to the same bytes are not morally strong.
    fn overlaps_in_part(&self, other: &Record) -> bool {
        overlap_in_part((other.kind, other.element), (self.access.kind, self.access.element))
    }

    /// Conflict with an earlier access of the same block.
    fn meets_inside(&self, earlier: Earlier, byte: u32, lane: u32) -> Option<Conflict> {
        let (warp, kind) = (self.access.warp, self.access.kind);
        let record = earlier.record;
        let Moment { block, warp: other_warp, .. } = record.at;
        let both_strong = record.strength != Reached::Weak && self.access.is_strong();
        if both_strong && !self.overlaps_in_part(&record) {
            return None;
        }
        let both_store = record.kind == Kind::Write && kind == Kind::Write;
        let is_same_run = (other_warp, record.instr) == (warp, self.access.instr);
        let conflict = |rule, other_lane| {
            let other = Side { instr: record.instr, block, warp: other_warp, lane: other_lane };
            Some(Conflict { rule, other: Some(other), byte })
        };
        // Lanes of one store are ordered; a lane before this one has the same address.
        if both_store
            && is_same_run
            && record.time >= self.order.event(warp)
            && let Some(other) = self.collides(lane)
        {
            let stored = self.values.map(|values| [lane, other].map(values.stored));
            return conflict(
                match stored {
                    Some([a, b]) if a == b => Rule::SameValueOfLanes,
                    Some([a, b]) if differ_by_rounding(a, b, self.access.bytes) => Rule::NearValue,
                    Some(_) | None => Rule::LanesCollide,
                },
                other,
            );
        }
        let is_exact = earlier.is_exact && record.lane_bytes != PARTS;
        let other_lane = if is_exact { (earlier.lane + byte / record.lane_bytes) % 32 } else { earlier.lane };
        if !is_exact && (other_warp == warp || is_same_run) {
            return None;
        }
        let lanes = if is_exact { 1u32.checked_shl(other_lane) } else { None };
        if self.grid.knows((warp, 1 << lane), record.at, lanes.unwrap_or(0)) == Some(Grade::Wide) {
            return None;
        }
        match self.order.ordered(record.time, other_warp, other_lane, warp, lane) {
            Ordered::Yes => None,
            Ordered::InLockstep => is_exact.then(|| conflict(Rule::UngatheredLanes, other_lane))?,
            Ordered::Unshared => conflict(Rule::UnsharedAcquire, other_lane),
            Ordered::No if other_warp == warp => conflict(Rule::WarpSynchronous, other_lane),
            Ordered::No if both_strong => conflict(Rule::MixedSizes, other_lane),
            Ordered::No => conflict(self.hazard(record.kind, lane), other_lane),
        }
    }

    /// The rule that the access of `lane` breaks towards an unordered one of a kind.
    fn hazard(&self, before: Kind, lane: u32) -> Rule {
        let both_store = before == Kind::Write && self.access.kind == Kind::Write;
        match self.values.filter(|_| both_store).map(|values| ((values.stored)(lane), (values.held)(lane))) {
            Some((stored, held)) if stored == held => Rule::SameValue,
            Some((stored, held)) if differ_by_rounding(stored, held, self.access.bytes) => Rule::NearValue,
            Some(_) | None => Rule::hazard(before, self.access.kind),
        }
    }

    /// An earlier lane that stores to the same bytes by the same instruction.
    fn collides(&self, lane: u32) -> Option<u32> {
        let at = self.addresses[lane as usize];
        Lanes(self.access.mask & ((1 << lane) - 1)).find(|&other| self.addresses[other as usize] == at)
    }
}
