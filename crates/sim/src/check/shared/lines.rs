//! Lines of 32 words of shared memory that whole warps access lane by lane: one set of records
//! stands for all words of a line, so that such an access costs as much as one to a single word.
//!
//! Nothing but a form of the shadow: what the records of a line say is what those of its words
//! would. An access of another shape spreads a line over its words first.

use super::packed::{ID_SHIFT, LANE, STRONG, Settled, same_warp};
use super::shadow::SharedShadow;
use crate::check::access::{Access, Kind, Lanes, Pattern};
use crate::check::order::block::BlockOrder;

/// Words of a line.
const WORDS: usize = 32;
/// Bytes of a line.
const BYTES: u32 = 128;

/// Records of a line.
#[derive(Debug, Clone, Copy, Default)]
struct Line {
    /// Record of the first word, by lane 0, if the line is whole; the word behind it has the same
    /// by lane 1. 0: none in any word.
    writer: u32,
    reader: u32,
    earlier: u32,
    /// True if its records stand for those of its words, all of whose bytes are written.
    is_whole: bool,
    /// True if some warp has accessed all of its words, so that each is inside a variable.
    lies_inside: bool,
}

/// The lines of a block's shared memory.
#[derive(Debug)]
pub(in crate::check) struct Lines {
    lines: Box<[Line]>,
    /// Number of whole lines.
    whole: usize,
    /// True if any line may be whole.
    are_used: bool,
}

/// A plain access to a word by each lane of a warp.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WarpAccess {
    /// Position in the program's instruction table.
    pub(crate) instr: u32,
    /// Warp index in its block.
    pub(crate) warp: u32,
    /// True for a load, false for a store.
    pub(crate) reads: bool,
    /// The offset of lane 0, a multiple of 4.
    pub(crate) first: u32,
    /// True if all lanes access that word; false if each accesses the word after that of the
    /// previous lane.
    pub(crate) is_uniform: bool,
}

/// The record of a word of a whole line.
const fn of_word(record: u32, word: u32) -> u32 {
    if record == 0 { 0 } else { record | word }
}

/// The record that stands for those of all words of a line, if there is one.
#[inline(always)]
fn common(records: &[u32]) -> Option<u32> {
    let first = records[0];
    let lanes = if first == 0 { 0 } else { u32::MAX };
    if first & LANE != 0 {
        return None;
    }
    let mut differing = 0;
    for (word, &record) in (0u32..).zip(records) {
        differing |= record ^ (first | (word & lanes));
    }
    (differing == 0).then_some(first)
}

impl Lines {
    /// The lines of `words` words.
    pub(super) fn new(words: usize) -> Self {
        Self { lines: vec![Line::default(); words / WORDS].into(), whole: 0, are_used: true }
    }

    /// Clears the records of all lines.
    pub(super) fn clear(&mut self) {
        if std::mem::take(&mut self.whole) != 0 {
            self.lines.iter_mut().for_each(|line| line.is_whole = false);
        }
    }

    /// Size of the lines in bytes.
    #[cfg(test)]
    pub(super) fn footprint(&self) -> usize {
        std::mem::size_of_val(&*self.lines)
    }
}

impl SharedShadow {
    /// Starts a block; `are_used` enables whole lines.
    pub(in crate::check) fn begin_lines(&mut self, are_used: bool) {
        self.spread(0, u32::MAX);
        self.lines.are_used = are_used;
    }

    /// Checks and records an access that breaks no rule according to its line's records; returns
    /// `false`, with nothing changed, if it needs a closer look.
    #[inline(always)]
    pub(in crate::check) fn line_access(&mut self, order: &mut BlockOrder, access: WarpAccess) -> bool {
        let WarpAccess { instr, warp, reads, first, is_uniform } = access;
        let Some(line) = self.lines.lines.get(first as usize / BYTES as usize) else { return false };
        let serves = if is_uniform { reads && !line.is_whole } else { line.is_whole && first.is_multiple_of(BYTES) };
        if !(serves && line.lies_inside) {
            return false;
        }
        let id = order.record(warp, instr, if reads { Kind::Read } else { Kind::Write }, 4);
        if self.floor != order.floor() || self.generation() != order.generation() {
            return false;
        }
        let base = id << ID_SHIFT | warp << 5;
        let settled = Settled {
            floor: order.floor() << ID_SHIFT,
            synced: order.synced(warp) << ID_SHIFT,
            closer: if reads { STRONG } else { 0 },
        };
        if is_uniform {
            self.read_by_all(order, settled, first as usize / 4, base)
        } else if reads {
            self.read_line(order, settled, first, base)
        } else {
            self.write_line(settled, first, base)
        }
    }

    #[inline(always)]
    fn read_line(&mut self, order: &BlockOrder, settled: Settled, first: u32, me: u32) -> bool {
        let line = &mut self.lines.lines[first as usize / BYTES as usize];
        if !settled.holds_one(line.writer, me) {
            return false;
        }
        let (reader, earlier) = (line.reader, line.earlier);
        if reader >= settled.floor && !same_warp(reader, me) {
            let pushes_out = earlier >= settled.floor && !same_warp(earlier, reader) && !same_warp(earlier, me);
            if pushes_out && order.partial_order() {
                return false;
            }
            line.earlier = reader;
        }
        line.reader = me;
        true
    }

    #[inline(always)]
    fn write_line(&mut self, settled: Settled, first: u32, me: u32) -> bool {
        let line = &mut self.lines.lines[first as usize / BYTES as usize];
        let is_clear = settled.holds_one(line.writer, me)
            && settled.holds_one(line.reader, me)
            && settled.holds_one(line.earlier, me);
        if is_clear {
            line.writer = me;
        }
        is_clear
    }

    /// Judges a read of one word by all lanes; the first and the last one leave their records.
    #[inline(always)]
    fn read_by_all(&mut self, order: &BlockOrder, settled: Settled, word: usize, first: u32) -> bool {
        let len = self.writers.len();
        let (writer, floor) = (self.writers[word], settled.floor);
        let is_settled =
            writer < floor || (same_warp(writer, first) && writer & STRONG == 0 && writer < settled.synced);
        if !is_settled || self.init[..len][word] != 0xf {
            return false;
        }
        let (reader, earlier) = (&mut self.readers[..len][word], &mut self.earlier[..len][word]);
        if *reader < floor {
            if *earlier < floor {
                *earlier = first;
            }
        } else if !same_warp(*reader, first) {
            let pushes_out = *earlier >= floor && !same_warp(*earlier, *reader) && !same_warp(*earlier, first);
            if pushes_out && order.partial_order() {
                return false;
            }
            *earlier = *reader;
        } else if *earlier < floor {
            return false;
        }
        *reader = first | LANE;
        true
    }

    /// Makes a line of 32 consecutive words after an access to them, if their records are alike.
    #[inline(always)]
    pub(in crate::check) fn gather(&mut self, first: u32) {
        let word = first as usize / 4;
        let Some(line) = self.lines.lines.get_mut(word / WORDS) else { return };
        if !first.is_multiple_of(BYTES) || !self.lines.are_used || line.is_whole {
            return;
        }
        line.lies_inside = true;
        let words = word..word + WORDS;
        if let Some(reader) = common(&self.readers[words.clone()])
            && let Some(earlier) = common(&self.earlier[words.clone()])
            && let Some(writer) = common(&self.writers[words.clone()])
            && self.init[words].iter().all(|&bytes| bytes == 0xf)
        {
            *line = Line { writer, reader, earlier, is_whole: true, lies_inside: true };
            self.lines.whole += 1;
        }
    }

    /// Gives the words between two offsets their own records.
    #[inline(always)]
    pub(super) fn spread(&mut self, start: u32, end: u32) {
        if self.lines.whole != 0 {
            self.spread_some(start, end);
        }
    }

    /// Gives the words of an access their own records.
    #[inline(always)]
    pub(super) fn spread_under(&mut self, access: &Access, addresses: &[u32; 32], pattern: Pattern) {
        if self.lines.whole == 0 {
            return;
        }
        let first = addresses[access.mask.trailing_zeros() as usize];
        match pattern {
            Pattern::Contiguous { lanes } => self.spread_some(first, first.saturating_add(lanes * access.bytes)),
            Pattern::Uniform { .. } => self.spread_some(first, first.saturating_add(access.bytes)),
            Pattern::Scattered => self.spread_under_lanes(access, addresses),
        }
    }

    #[inline(never)]
    fn spread_under_lanes(&mut self, access: &Access, addresses: &[u32; 32]) {
        // An access is aligned to its size, and so lies in one line.
        for lane in Lanes(access.mask) {
            let first = addresses[lane as usize];
            if self.lines.lines.get((first / BYTES) as usize).is_some_and(|line| line.is_whole) {
                self.spread_some(first, first + 1);
            }
        }
    }

    #[inline(never)]
    fn spread_some(&mut self, start: u32, end: u32) {
        let last = (end.div_ceil(BYTES) as usize).min(self.lines.lines.len());
        for at in (start / BYTES) as usize..last {
            let line = &mut self.lines.lines[at];
            if !std::mem::take(&mut line.is_whole) {
                continue;
            }
            let Line { writer, reader, earlier, .. } = *line;
            self.lines.whole -= 1;
            let words = at * WORDS..(at + 1) * WORDS;
            for (records, record) in
                [(&mut self.writers, writer), (&mut self.readers, reader), (&mut self.earlier, earlier)]
            {
                for (word, place) in (0u32..).zip(&mut records[words.clone()]) {
                    *place = of_word(record, word);
                }
            }
        }
    }
}
