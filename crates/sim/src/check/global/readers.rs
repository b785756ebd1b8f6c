//! Readers of words of global memory that several warps or blocks have read: lists shared by all
//! words with the same history.
//!
//! A cell has room for one reader, so the number of a list takes its place: the last reader's
//! record and the number of what was there before, a record or a list. Blocks read memory in rows,
//! so a list serves many words, and a block needs about as many lists as it has records of reads.
//! Readers of other blocks are in lists only in launches with instructions that order blocks: in
//! the others, one reader of another block makes every write a race.
//!
//! A read drops the earlier reads that it makes superfluous: those that are known to have happened
//! before and touched no more bytes and no more weakly, for what is ordered after this read is
//! ordered after them. Of the block's own readers it keeps one of another warp, or at least of
//! another lane, which suffices as long as only barriers of the whole block order warps; once
//! anything else does, one of each warp. Deeper in the list that happens when it has doubled since
//! the last time.
//!
//! A list of one block's readers knows the lanes of those of one warp: lanes read rows, so how far
//! apart two of them are is the same for all words of a list. Of the other lists only the last
//! reader is reported with its lane, and the others under that one.
//!
//! A list may hold a write, too: one that another block's strong write followed.
//!
//! What can be missed: of a block's readers that nothing orders all but two, before anything but a
//! barrier of the whole block has ordered warps, or once a launch has used up a million numbers; a strong read of a word that 64 blocks have read before.

use std::collections::{HashMap, HashSet};

use crate::check::access::Kind;
use crate::check::global::numbers::BlockRecords;
use crate::check::global::records::{LaunchCheck, PARTS, Reached, Record};
use crate::check::order::block::BlockOrder;
use crate::check::order::grid::GridOrder;

/// Maximum search length for a read in a list; a read beyond it may be listed twice until the list
/// is cleared of superfluous readers.
const LOOK: usize = 256;
// THRESHOLD: longer lists are cleared of superfluous readers; tested by
// crates/sim/src/check/tests/readers.rs::many_blocks_reading_one_word_are_all_remembered_and_cheap
/// Readers in a list that is too short to be cleared.
const SHORT: u32 = 32;
// THRESHOLD: strong reads are no longer recorded; tested by
// crates/sim/src/check/tests/readers.rs::a_reader_outlives_the_strong_reads_of_those_who_poll
/// Readers of a word beyond which strong reads are not recorded: polling a flag would otherwise use
/// up numbers.
const POLLED: u32 = 64;
// THRESHOLD: the block forgets them, and makes equal ones again; tested by
// crates/sim/src/check/global/readers.rs::lists_are_remembered_up_to_their_number_and_then_all_forgotten
/// Lists that a block remembers having made.
const REMEMBERED: usize = 1 << 14;
/// Records whose last join is remembered.
const LAST: usize = 8;

/// A list of readers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::check) struct Readers {
    /// The record of the last reader.
    pub(in crate::check) last: u32,
    /// The number of the record or list of those before.
    pub(in crate::check) before: u32,
    /// Number of readers, some perhaps counted twice.
    pub(in crate::check) count: u32,
    /// Count at which the list is cleared of superfluous readers.
    pub(in crate::check) clear_at: u32,
    /// True if it has more than reads by one block.
    pub(in crate::check) is_mixed: bool,
    /// Number of lanes that the reader before is ahead of the last one, modulo 32, if known.
    pub(in crate::check) turn: Option<u32>,
}

/// Transition of a word's reader number when the access of a certain record reads the word, too.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::check) struct Joined {
    by: u32,
    from: u32,
    /// Required number of lanes that the previous reader is ahead.
    turn: Option<u32>,
    /// The new reader number; 0 when numbers have run out.
    pub(in crate::check) to: u32,
    /// True if the new list has more than reads by one block.
    pub(in crate::check) is_mixed: bool,
}

impl Joined {
    /// Returns true if the transition applies to a reader number; `is_ahead` tells whether that
    /// reader is a number of lanes ahead.
    #[inline(always)]
    pub(in crate::check) fn holds_for(&self, reader: u32, is_ahead: impl Fn(u32) -> bool) -> bool {
        reader == self.from && self.turn.is_none_or(is_ahead)
    }
}

/// Lists that a block has made.
#[derive(Debug, Default)]
pub(in crate::check) struct OwnLists {
    /// Transitions by record, reader before and turn.
    joined: HashMap<(u32, u32, Option<u32>), Joined>,
    /// Lists by last reader, those before and turn.
    made: HashMap<(u32, u32, Option<u32>), u32>,
    last: [Joined; LAST],
}

impl OwnLists {
    pub(in crate::check) fn clear(&mut self) {
        self.joined.clear();
        self.made.clear();
        self.last = Default::default();
    }

    /// The latest transition of this record.
    #[inline(always)]
    pub(in crate::check) fn last_by(&self, record: u32) -> Joined {
        let last = self.last[record as usize % LAST];
        if last.by == record { last } else { Joined::default() }
    }
}

/// Returns true if every access that races with `earlier` races with the read `later`, too, given
/// that they are ordered.
fn covers(later: &Record, earlier: &Record) -> bool {
    earlier.kind == Kind::Read
        && earlier.bytes & !later.bytes == 0
        && (later.strength == Reached::Weak || later.strength == earlier.strength)
}

/// The numbers of the readers' records, the last one first.
pub(in crate::check) fn each(launch: &LaunchCheck, reader: u32) -> impl Iterator<Item = u32> {
    each_with_lane(launch, reader, 0).map(|(id, _)| id)
}

/// The record numbers of the readers, with their lanes if known, given that of the last one.
pub(in crate::check) fn each_with_lane(
    launch: &LaunchCheck,
    reader: u32,
    lane: u32,
) -> impl Iterator<Item = (u32, Option<u32>)> {
    let mut at = reader;
    let mut next = launch.readers(reader).is_none_or(|list| !list.is_mixed).then_some(lane);
    std::iter::from_fn(move || {
        if at == 0 {
            return None;
        }
        let list = launch.readers(at);
        let record = list.map_or(at, |list| list.last);
        let lane = next;
        at = list.map_or(0, |list| list.before);
        next = list.and_then(|list| Some((lane? + list.turn?) % 32));
        Some((record, lane))
    })
}

/// A read by a block of words with readers.
pub(in crate::check) struct Reading<'a> {
    pub(in crate::check) launch: &'a LaunchCheck,
    pub(in crate::check) order: &'a BlockOrder,
    pub(in crate::check) grid: &'a GridOrder,
    pub(in crate::check) records: &'a mut BlockRecords,
    /// The reading lanes.
    pub(in crate::check) lanes: u32,
}

/// A reader of the block itself, and the number of lanes that it is ahead.
#[derive(Debug, Clone, Copy)]
struct Kept {
    id: u32,
    warp: u32,
    turn: Option<u32>,
}

impl Reading<'_> {
    /// Returns the transition when the access of `record` reads a word whose readers have the
    /// number `reader`, the last of them `turn` lanes ahead.
    #[inline(never)]
    pub(in crate::check) fn join(&mut self, record: u32, reader: u32, turn: u32) -> Joined {
        let last = self.records.lists.last_by(record);
        if last.holds_for(reader, |ahead| ahead == turn) {
            return last;
        }
        let known = &self.records.lists.joined;
        let known = known.get(&(record, reader, None)).or_else(|| known.get(&(record, reader, Some(turn)))).copied();
        let joined = known.unwrap_or_else(|| self.find(record, reader, turn));
        if joined.to != 0 {
            let lists = &mut self.records.lists;
            remember(&mut lists.joined, (record, reader, joined.turn), joined);
            lists.last[record as usize % LAST] = joined;
        }
        joined
    }

    fn find(&mut self, record: u32, reader: u32, turn: u32) -> Joined {
        let nothing = Joined { by: record, from: reader, turn: None, to: 0, is_mixed: true };
        let Some(me) = self.launch.get(record) else { return nothing };
        if matches!(me.strength, Reached::Near | Reached::Wide)
            && self.launch.readers(reader).is_some_and(|list| list.count >= POLLED)
        {
            return Joined { to: reader, ..nothing };
        }
        let mut kept = Vec::new();
        let mut depends_on_lane = false;
        let mut before = reader;
        let mut ahead = self.launch.readers(reader).is_none_or(|list| !list.is_mixed).then_some(turn);
        while let Some(head) = self.launch.get(before) {
            let list = self.launch.readers(before);
            let id = list.map_or(before, |list| list.last);
            if !self.is_own(&me, &head) {
                if !self.is_covered(&me, &head) {
                    break;
                }
            } else if !self.is_dropped((record, &me), (id, &head)) {
                let is_same_warp = head.at.warp == me.at.warp;
                depends_on_lane |= is_same_warp && ahead.is_some();
                if !(is_same_warp && ahead == Some(0) && covers(&me, &head)) {
                    kept.push(Kept { id, warp: head.at.warp, turn: ahead });
                }
            }
            before = list.map_or(0, |list| list.before);
            ahead = list.and_then(|list| Some((ahead? + list.turn?) % 32));
        }
        let rest = if self.launch.get(before).is_some() { before } else { 0 };
        if rest == reader && each(self.launch, reader).take(LOOK).any(|other| other == record) {
            return Joined { to: reader, ..nothing };
        }
        let kept = self.chosen(&me, &kept);
        let mut all = rest;
        for reader in kept.iter().rev() {
            all = self.list(reader.id, &me, all, None, rest != 0);
            if all == 0 {
                return nothing;
            }
        }
        let ahead = kept.first().filter(|kept| kept.warp == me.at.warp).and_then(|kept| kept.turn);
        let to = self.list(record, &me, all, ahead, rest != 0);
        Joined { turn: depends_on_lane.then_some(turn), to, is_mixed: rest != 0, ..nothing }
    }

    /// Chooses which of the block's own readers to keep: those of other warps, or else one of
    /// another lane.
    fn chosen(&self, me: &Record, own: &[Kept]) -> Vec<Kept> {
        let most = if self.order.partial_order() && self.launch.is_generous() { 32 } else { 1 };
        let is_first = |n: usize| own[..n].iter().all(|before| before.warp != own[n].warp);
        let others = (0..own.len()).filter(|&n| own[n].warp != me.at.warp && is_first(n));
        let others: Vec<_> = others.take(most).map(|n| own[n]).collect();
        if others.is_empty() { own.first().copied().into_iter().collect() } else { others }
    }

    /// Returns true if an earlier access is a read by the block itself.
    fn is_own(&self, me: &Record, earlier: &Record) -> bool {
        earlier.at.block == me.at.block && earlier.kind == Kind::Read
    }

    /// Returns true if the access of `me` makes an earlier one by another block superfluous.
    fn is_covered(&self, me: &Record, earlier: &Record) -> bool {
        covers(me, earlier) && self.grid.all_know((me.at.warp, self.lanes), earlier.at)
    }

    /// Returns true if the access of `me` makes an earlier read by the block itself superfluous, in
    /// any lane.
    fn is_dropped(&self, (record, me): (u32, &Record), (id, earlier): (u32, &Record)) -> bool {
        let is_part_of_it = || me.lane_bytes == PARTS && earlier.bytes & !me.bytes == 0;
        let is_synced = || earlier.time < self.order.synced(me.at.warp) && covers(me, earlier);
        let is_same_warp = earlier.at.warp == me.at.warp;
        let is_judged_elsewhere = earlier.time == 0 || me.time == 0;
        is_judged_elsewhere
            || self.records.is_settled(id)
            || (is_same_warp && (id == record || is_part_of_it() || is_synced()))
    }

    /// The number for a reader and the previous ones, which may be none; 0 when numbers have run
    /// out.
    fn list(&mut self, last: u32, me: &Record, before: u32, turn: Option<u32>, is_mixed: bool) -> u32 {
        if before == 0 {
            return last;
        }
        if let Some(&list) = self.records.lists.made.get(&(last, before, turn)) {
            return list;
        }
        let (mut count, mut clear_at) =
            self.launch.readers(before).map_or((1, SHORT), |list| (list.count, list.clear_at));
        let mut rest = before;
        if is_mixed && count >= clear_at {
            (rest, count) = self.cleared(me, before, count);
            clear_at = SHORT.max(count * 2);
        }
        if rest == 0 {
            return last;
        }
        let list = Readers { last, before: rest, count: count + 1, clear_at, is_mixed, turn };
        let list = self.records.list(self.launch, list);
        if list != 0 {
            remember(&mut self.records.lists.made, (last, before, turn), list);
        }
        list
    }

    /// A list without superfluous readers and with each warp once, if that makes it much shorter;
    /// and its length.
    fn cleared(&mut self, me: &Record, list: u32, count: u32) -> (u32, u32) {
        let mut warps = HashSet::new();
        let mut kept = Vec::new();
        for id in each(self.launch, list) {
            let Some(reader) = self.launch.get(id) else { continue };
            let is_read = reader.kind == Kind::Read;
            let is_own = self.is_own(me, &reader);
            let is_dropped =
                if is_own { self.is_dropped((0, me), (id, &reader)) } else { self.is_covered(me, &reader) };
            if !is_dropped && warps.insert((reader.at.block, is_own.then_some(reader.at.warp), is_read)) {
                kept.push(id);
            }
        }
        let num = u32::try_from(kept.len()).unwrap_or(u32::MAX);
        if num > count / 4 * 3 {
            return (list, count);
        }
        let mut rest = 0;
        for (count, &last) in (1..).zip(kept.iter().rev()) {
            let clear_at = SHORT.max(num * 2);
            let readers = Readers { last, before: rest, count, clear_at, is_mixed: true, turn: None };
            rest = if rest == 0 { last } else { self.records.list(self.launch, readers) };
            if rest == 0 {
                return (list, count);
            }
        }
        (rest, num)
    }
}

fn remember<T>(table: &mut HashMap<(u32, u32, Option<u32>), T>, key: (u32, u32, Option<u32>), entry: T) {
    if table.len() >= REMEMBERED {
        table.clear();
    }
    table.insert(key, entry);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_remembered_up_to_their_number_and_then_all_forgotten() {
        let (mut table, most) = (HashMap::new(), u32::try_from(REMEMBERED).unwrap());
        (0..most).for_each(|n| remember(&mut table, (n, 1, None), n));
        assert!((0..most).all(|n| table.get(&(n, 1, None)) == Some(&n)));
        remember(&mut table, (most, 1, None), most);
        assert_eq!(table.into_iter().collect::<Vec<_>>(), [((most, 1, None), most)]);
    }
}
