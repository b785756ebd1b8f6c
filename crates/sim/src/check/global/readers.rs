//! Words of global memory that several blocks have read: lists of readers, shared by all words with
//! the same history.
//!
//! A cell has room for one reader, so the number of a list takes its place: the last reader's
//! record and the number of what was there before, a record or a list. Blocks read memory in rows,
//! so a list serves many words, and a block needs about as many lists as it has records of reads.
//! Only launches with instructions that order blocks keep them: in the others, one reader of
//! another block makes every write a race.
//!
//! A read drops the earlier reads that it makes superfluous: the block's own earlier reader and
//! those that are known to have happened before and touched no more bytes and no more weakly, for
//! what is ordered after this read is ordered after them. Deeper in the list that happens when it
//! has doubled since the last time.
//!
//! A list may hold a write, too: one that another block's strong write followed.
//!
//! What can be missed: all but the last read of a block; a strong read of a word that 64 blocks
//! have read before. Of the readers in a list only the last one's lane is known, and the others are
//! reported under that one.

use std::collections::{HashMap, HashSet};

use crate::check::access::Kind;
use crate::check::global::numbers::BlockRecords;
use crate::check::global::records::{LaunchCheck, Reached, Record};
use crate::check::order::grid::GridOrder;

/// How far to look whether a read is in a list already; beyond, it may be there twice until the
/// list is cleared out.
const LOOK: usize = 256;
// THRESHOLD: longer lists are cleared of superfluous readers; tested by
// crates/sim/src/check/tests/readers.rs::many_blocks_reading_one_word_are_all_remembered_and_cheap
/// Readers in a list that is not worth clearing out.
const SHORT: u32 = 32;
// THRESHOLD: strong reads are no longer recorded; tested by
// crates/sim/src/check/tests/readers.rs::a_reader_outlives_the_strong_reads_of_those_who_poll
/// Readers of a word beyond which strong reads are not recorded: who polls a flag would otherwise
/// use up numbers.
const POLLED: u32 = 64;
/// Lists that a block remembers having made.
const REMEMBERED: usize = 1 << 14;

/// A list of readers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::check) struct Readers {
    /// The record of the last reader.
    pub(in crate::check) last: u32,
    /// The number of the record or list of those before.
    pub(in crate::check) before: u32,
    /// How many there are, counting some twice perhaps.
    pub(in crate::check) count: u32,
    /// When to clear it out.
    pub(in crate::check) clear_at: u32,
}

/// What becomes of a reader's number when a certain record's access reads the word, too.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::check) struct Joined {
    by: u32,
    pub(in crate::check) from: u32,
    pub(in crate::check) to: u32,
}

/// The lists that a block has made.
#[derive(Debug, Default)]
pub(in crate::check) struct OwnLists {
    made: HashMap<(u32, u32), u32>,
    last: Joined,
}

impl OwnLists {
    pub(in crate::check) fn clear(&mut self) {
        self.made.clear();
        self.last = Joined::default();
    }

    /// What was last asked, if it was for this record.
    #[inline(always)]
    pub(in crate::check) fn last_by(&self, record: u32) -> Joined {
        if self.last.by == record { self.last } else { Joined::default() }
    }
}

/// Whether every access that races with `earlier` races with the read `later`, too, given that they
/// are ordered.
fn covers(later: &Record, earlier: &Record) -> bool {
    earlier.kind == Kind::Read
        && earlier.bytes & !later.bytes == 0
        && (later.strength == Reached::Weak || later.strength == earlier.strength)
}

/// The numbers of the readers' records, the last one first.
pub(in crate::check) fn each(launch: &LaunchCheck, reader: u32) -> impl Iterator<Item = u32> {
    let mut at = reader;
    std::iter::from_fn(move || {
        if at == 0 {
            return None;
        }
        let list = launch.readers(at);
        let record = list.map_or(at, |list| list.last);
        at = list.map_or(0, |list| list.before);
        Some(record)
    })
}

/// A block that reads words with readers.
pub(in crate::check) struct Reading<'a> {
    pub(in crate::check) launch: &'a LaunchCheck,
    pub(in crate::check) grid: &'a GridOrder,
    pub(in crate::check) records: &'a mut BlockRecords,
    /// Its lanes that read.
    pub(in crate::check) lanes: u32,
}

impl Reading<'_> {
    /// The number for the readers of a word that had `reader` and that the access of `record`
    /// reads; 0 when numbers ran out.
    #[inline(never)]
    pub(in crate::check) fn join(&mut self, record: u32, reader: u32) -> u32 {
        let last = self.records.lists.last_by(record);
        if last.from == reader {
            return last.to;
        }
        let to = match self.records.lists.made.get(&(record, reader)) {
            Some(&list) => list,
            None => self.find(record, reader),
        };
        if to != 0 {
            self.remember(record, reader, to);
            self.records.lists.last = Joined { by: record, from: reader, to };
        }
        to
    }

    fn remember(&mut self, record: u32, before: u32, list: u32) {
        let made = &mut self.records.lists.made;
        if made.len() >= REMEMBERED {
            made.clear();
        }
        made.insert((record, before), list);
    }

    fn find(&mut self, record: u32, reader: u32) -> u32 {
        let Some(me) = self.launch.get(record) else { return 0 };
        if matches!(me.strength, Reached::Near | Reached::Wide)
            && self.launch.readers(reader).is_some_and(|list| list.count >= POLLED)
        {
            return reader;
        }
        let mut before = reader;
        while let Some(head) = self.launch.get(before) {
            if !self.drops(&me, &head) {
                break;
            }
            before = self.launch.readers(before).map_or(0, |list| list.before);
        }
        if self.launch.get(before).is_none() {
            return record;
        }
        if before == reader && each(self.launch, reader).take(LOOK).any(|other| other == record) {
            return reader;
        }
        if let Some(&list) = self.records.lists.made.get(&(record, before)) {
            return list;
        }
        let list = self.prepend(record, &me, before);
        if list != 0 && before != reader {
            self.remember(record, before, list);
        }
        list
    }

    /// Whether the access of `me` makes an earlier reader superfluous.
    fn drops(&self, me: &Record, earlier: &Record) -> bool {
        let own = earlier.at.block == me.at.block && earlier.kind == Kind::Read;
        own || (covers(me, earlier) && self.grid.all_know((me.at.warp, self.lanes), earlier.at))
    }

    fn prepend(&mut self, record: u32, me: &Record, before: u32) -> u32 {
        let (mut count, mut clear_at) =
            self.launch.readers(before).map_or((1, SHORT), |list| (list.count, list.clear_at));
        let mut before = before;
        if count >= clear_at {
            (before, count) = self.cleared(me, before, count);
            clear_at = SHORT.max(count * 2);
        }
        if before == 0 {
            return record;
        }
        self.records.list(self.launch, Readers { last: record, before, count: count + 1, clear_at })
    }

    /// A list without superfluous readers and with each block once, if that makes it much shorter;
    /// and its length.
    fn cleared(&mut self, me: &Record, list: u32, count: u32) -> (u32, u32) {
        let mut blocks = HashSet::new();
        let mut kept = Vec::new();
        for id in each(self.launch, list) {
            let Some(reader) = self.launch.get(id) else { continue };
            let is_read = reader.kind == Kind::Read;
            if !self.drops(me, &reader) && blocks.insert((reader.at.block, is_read)) {
                kept.push(id);
            }
        }
        let num = u32::try_from(kept.len()).unwrap_or(u32::MAX);
        if num > count / 4 * 3 {
            return (list, count);
        }
        let mut rest = 0;
        for (count, &last) in (1..).zip(kept.iter().rev()) {
            let readers = Readers { last, before: rest, count, clear_at: SHORT.max(num * 2) };
            rest = if rest == 0 { last } else { self.records.list(self.launch, readers) };
            if rest == 0 {
                return (list, count);
            }
        }
        (rest, num)
    }
}
