//! Judge of a lane's access to one word or byte of shared memory, which it also records.

use std::collections::HashMap;

use crate::check::access::{Access, Kind, Lanes, Values, differ_by_rounding, overlap_in_part};
use crate::check::findings::Rule;
use crate::check::order::block::{BlockOrder, Context, Ordered};
use crate::check::shared::packed::{ID_SHIFT, LANE, SPLIT, STRONG, Settled, same_thread, same_warp, warp_of};
use crate::check::shared::split::Cell;

/// The word of a key, which is a word's index or, with the highest bit, a byte's.
const fn word_of(key: u32) -> u32 {
    if key >> 31 != 0 { (key & !(1 << 31)) >> 2 } else { key }
}

/// One warp access, with everything needed to judge it.
pub(in crate::check) struct Visit<'a> {
    pub(in crate::check) order: &'a BlockOrder,
    pub(in crate::check) access: &'a Access,
    pub(in crate::check) addresses: &'a [u32; 32],
    pub(in crate::check) values: Option<&'a Values<'a>>,
    pub(in crate::check) block: u32,
    pub(in crate::check) settled: Settled,
    /// The record of lane 0.
    pub(in crate::check) base: u32,
}

impl Visit<'_> {
    /// Returns true if all lanes store the same value.
    pub(in crate::check) fn stores_one_value(&self) -> bool {
        let Some(values) = self.values else { return false };
        let first = (values.stored)(self.access.mask.trailing_zeros());
        Lanes(self.access.mask).all(|lane| (values.stored)(lane) == first)
    }

    /// Judges one cell against one lane's access and records the access; the worst conflict.
    pub(in crate::check) fn judge(
        &self,
        cell: &mut Cell,
        mut crowds: Option<&mut HashMap<u32, Vec<u32>>>,
        key: u32,
        lane: u32,
    ) -> Option<(Rule, u32)> {
        let me = self.base | lane;
        let word = word_of(key);
        let writer = cell.writer;
        let mut worst: Option<(Rule, u32)> = None;
        let mut look = |record: u32| {
            if let Some(rule) = self.conflict(record, lane)
                && !self.comes_after(record, writer, word, lane)
                && worst.is_none_or(|(most, _)| rule.severity() > most.severity())
            {
                worst = Some((rule, record));
            }
        };
        look(cell.writer);
        // A reader of a value that was stored unordered before, and is stored again, has read the
        // final value.
        let repeats = matches!(worst, Some((Rule::SameValue, _)));
        let mut look = |record: u32| {
            if let Some(rule) = self.conflict(record, lane)
                && !(repeats && rule == Rule::WriteAfterRead)
                && !self.comes_after(record, writer, word, lane)
                && worst.is_none_or(|(most, _)| rule.severity() > most.severity())
            {
                worst = Some((rule, record));
            }
        };
        let reads = self.access.kind == Kind::Read;
        let among_strong = cell.writer >= self.settled.floor && cell.writer & STRONG != 0;
        if !reads || among_strong {
            let crowd = crowds.as_ref().and_then(|crowds| crowds.get(&key)).map_or(&[][..], Vec::as_slice);
            for &record in [cell.reader, cell.earlier].iter().chain(crowd) {
                let is_read = record < self.settled.floor || self.order.context(record >> ID_SHIFT).kind == Kind::Read;
                if !(reads && is_read) {
                    look(record);
                }
            }
        }
        if reads {
            self.crowd_reader(cell, crowds, key, me);
        } else {
            if me & STRONG == 0 {
                cell.reader = 0;
                cell.earlier = 0;
                if let Some(crowds) = &mut crowds {
                    crowds.remove(&key);
                }
            } else if cell.writer >= self.settled.floor && (!same_thread(cell.writer, me) || cell.writer & STRONG == 0)
            {
                let before = cell.writer;
                self.crowd_reader(cell, crowds, key, before);
            }
            cell.writer = me;
        }
        worst
    }

    /// Returns true if this lane comes after a strong write because something before it has
    /// observed the write: a strong read, or the atomic that is the word's last `writer` and built
    /// on it.
    fn comes_after(&self, record: u32, writer: u32, word: u32, lane: u32) -> bool {
        let is_strong_write = |record: u32| {
            record & STRONG != 0 && record != SPLIT && self.order.context(record >> ID_SHIFT).kind != Kind::Read
        };
        let is_before = |id: u32, warp: u32, lanes: u32| {
            Lanes(lanes).any(|other| self.order.ordered(id, warp, other, self.access.warp, lane) == Ordered::Yes)
        };
        let is_observed =
            |record: u32| self.order.observed.any(word, record, |seen| is_before(seen.read, seen.warp, seen.lanes));
        if !is_strong_write(record) {
            return false;
        }
        let builds_on_it = || {
            writer != record
                && writer >= self.settled.floor
                && is_strong_write(writer)
                && self.order.context(writer >> ID_SHIFT).kind == Kind::Atomic
                && (is_before(writer >> ID_SHIFT, warp_of(writer), 1 << (writer & LANE)) || is_observed(writer))
        };
        is_observed(record) || builds_on_it()
    }

    /// Makes `new` the last reader and keeps one of another warp, or at least of another lane,
    /// beside it. Returns the reader of a third warp that had to go.
    #[inline(always)]
    pub(in crate::check) fn insert_reader(&self, cell: &mut Cell, new: u32) -> Option<u32> {
        let Cell { reader, earlier, .. } = *cell;
        let floor = self.settled.floor;
        cell.reader = new;
        if reader < floor || same_thread(reader, new) || (same_warp(reader, new) && earlier >= floor) {
            return None;
        }
        cell.earlier = reader;
        (earlier >= floor && !same_warp(earlier, reader) && !same_warp(earlier, new)).then_some(earlier)
    }

    /// [`insert_reader`](Self::insert_reader), with a table for the evicted readers.
    fn crowd_reader(&self, cell: &mut Cell, mut crowds: Option<&mut HashMap<u32, Vec<u32>>>, key: u32, new: u32) {
        // A thread's weak access is not hidden by its own strong one.
        let (reader, earlier, floor) = (cell.reader, cell.earlier, self.settled.floor);
        let is_weak = |record: u32| record >= floor && same_thread(record, new) && record & STRONG == 0;
        if new & STRONG != 0 && is_weak(reader) {
            if earlier >= floor && !same_warp(earlier, new) {
                let Some(crowds) = &mut crowds else { return };
                let crowd = crowds.entry(key).or_default();
                crowd.retain(|&record| !same_warp(record, earlier));
                crowd.push(earlier);
            }
            (cell.reader, cell.earlier) = (new, reader);
            return;
        }
        if let Some(pushed_out) = self.insert_reader(cell, new)
            && let Some(crowds) = crowds
        {
            let crowd = crowds.entry(key).or_default();
            crowd.retain(|&record| !same_warp(record, pushed_out));
            crowd.push(pushed_out);
        }
    }

    /// The rule that the access of `lane` breaks towards an earlier record.
    fn conflict(&self, record: u32, lane: u32) -> Option<Rule> {
        let me = self.base | lane;
        let id = record >> ID_SHIFT;
        if record < self.settled.floor {
            return None;
        }
        let both_strong = record & me & STRONG != 0;
        if both_strong {
            let Context { kind, element, .. } = self.order.context(id);
            // One sees what the other has stored, or not yet, only as long as the two run in step.
            // Who waits for a lane that is elsewhere does so in a loop.
            let is_exchange = matches!((kind, self.access.kind), (Kind::Write, Kind::Read) | (Kind::Read, Kind::Write));
            let relies_on_lockstep = is_exchange
                && self.access.is_volatile()
                && same_warp(record, me)
                && self.access.mask >> (record & LANE) & 1 != 0;
            if !relies_on_lockstep && !overlap_in_part((kind, element), (self.access.kind, self.access.element)) {
                return None;
            }
        }
        match self.order.ordered(id, warp_of(record), record & LANE, self.access.warp, lane) {
            Ordered::Yes => return None,
            Ordered::InLockstep if self.order.collective.contains(id) => return None,
            Ordered::InLockstep => return Some(Rule::UngatheredLanes),
            Ordered::Unshared => return Some(Rule::UnsharedAcquire),
            Ordered::No => {}
        }
        let before = self.order.context(id);
        let both_store = before.kind == Kind::Write && self.access.kind == Kind::Write;
        let other = record & LANE;
        if same_warp(record, me) {
            if self.order.collective.contains(id) {
                return None;
            }
            let same_execution = both_store
                && id == self.base >> ID_SHIFT
                && self.access.mask & 1 << other != 0
                && self.overlaps(lane, other);
            let stored = || self.values.map(|values| [lane, other].map(values.stored));
            return Some(match same_execution.then(stored) {
                Some(Some([a, b])) if a == b => Rule::SameValueOfLanes,
                Some(Some([a, b])) if differ_by_rounding(a, b, self.access.bytes) => Rule::NearValue,
                Some(_) => Rule::LanesCollide,
                None => Rule::WarpSynchronous,
            });
        }
        if before.by.is_some() {
            // A thread that has waited for the copy knows of it.
            let reads = self.access.kind == Kind::Read;
            return Some(if reads { Rule::ReadBeforeLanding } else { Rule::WriteBeforeLanding });
        }
        if both_strong {
            return Some(Rule::MixedSizes);
        }
        let values = self.values.filter(|_| both_store).map(|values| ((values.stored)(lane), (values.held)(lane)));
        Some(match values {
            Some((stored, held)) if stored == held => Rule::SameValue,
            Some((stored, held)) if differ_by_rounding(stored, held, self.access.bytes) => Rule::NearValue,
            Some(_) | None => Rule::hazard(before.kind, self.access.kind),
        })
    }

    fn overlaps(&self, a: u32, b: u32) -> bool {
        self.addresses[a as usize].abs_diff(self.addresses[b as usize]) < self.access.bytes
    }
}
