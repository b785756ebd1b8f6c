//! Bytes of shared memory in flight: asynchronous copies that still write or read them, and live
//! mbarriers.
//!
//! From issue to the wait that covers it a copy may touch its bytes at any time, so any other write
//! of them races with it, and so does a read of what it writes (PTX ISA, "Asynchronous copy": both
//! are undefined). That holds by the state alone: an access that is ordered before the copy was
//! made before it. Reductions may meet one another, and atomics.
//!
//! What can be missed: of several copies in flight over one word, a finding names one.

use crate::check::access::{Access, Kind, Lanes};
use crate::check::findings::{Rule, Side};
use crate::exec::lanes;

/// State of a word that a copy writes, or of a barrier.
const WRITTEN: u8 = 0x80;

/// Effect of a copy on its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hold {
    Reads,
    Writes,
    /// Combines with the contents, atomically as far as other accesses can tell.
    Reduces,
    /// Not a copy, but an mbarrier.
    Barrier,
}

impl From<Kind> for Hold {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Read => Self::Reads,
            Kind::Write => Self::Writes,
            Kind::Atomic => Self::Reduces,
        }
    }
}

impl Hold {
    /// Returns true if an access of this kind conflicts with the copy.
    fn collides(self, access: Self) -> bool {
        !matches!((self, access), (Self::Reads, Self::Reads) | (Self::Reduces, Self::Reduces))
    }
}

/// Pending effect of one copy on a range of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flight {
    /// First byte and the one past the last; whole words.
    pub(crate) start: u32,
    pub(crate) end: u32,
    /// Effect of the copy there.
    pub(crate) hold: Hold,
    /// The thread that issued it.
    pub(in crate::check) side: Side,
}

/// Units of 16 bytes that one operation of a whole warp is reading.
#[derive(Debug)]
struct Operands {
    units: Vec<u32>,
    side: Side,
}

/// All copies in flight in one block.
#[derive(Debug, Default)]
pub(in crate::check) struct InFlight {
    /// State per word: [`WRITTEN`], or the number of copies that read it.
    words: Vec<u8>,
    /// The first of the ranges that start in a word: its index in `flights`, plus one.
    first: Vec<u32>,
    /// Ranges, each with the index plus one of the next range that starts in the same word, or of
    /// the next free slot.
    flights: Vec<(Flight, u32)>,
    /// Index of the first free slot, plus one.
    free: u32,
    /// Reads by operations of warps, a few at a time.
    operands: Vec<Operands>,
    count: usize,
    /// The longest range so far.
    longest: u32,
}

impl InFlight {
    /// Resets the state for the `bytes` bytes of a block: no copies in flight.
    pub(in crate::check) fn begin(&mut self) {
        if self.count != 0 {
            self.words.fill(0);
            self.first.fill(0);
            self.flights.clear();
            self.free = 0;
            self.operands.clear();
            self.count = 0;
        }
    }

    /// Returns true if no copy is in flight.
    #[inline(always)]
    pub(in crate::check) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds a copy; returns the one that it conflicts with.
    pub(in crate::check) fn add(&mut self, flight: Flight) -> Option<(Rule, Flight)> {
        let last = flight.end.div_ceil(4) as usize;
        if self.words.len() < last {
            self.words.resize(last, 0);
        }
        let hit = self.look(flight.start, flight.end, flight.hold);
        for word in &mut self.words[flight.start as usize / 4..last] {
            if flight.hold != Hold::Reads {
                *word |= WRITTEN;
            } else if *word & !WRITTEN < !WRITTEN {
                *word += 1;
            }
        }
        self.longest = self.longest.max(flight.end - flight.start);
        self.push(flight);
        self.count += 1;
        hit
    }

    /// Adds a range after those that start in the same word.
    fn push(&mut self, flight: Flight) {
        let word = flight.start as usize / 4;
        if self.first.len() <= word {
            self.first.resize(word + 1, 0);
        }
        let place = self.free;
        let place = if place == 0 {
            self.flights.push((flight, 0));
            u32::try_from(self.flights.len()).expect("as many as words")
        } else {
            let node = &mut self.flights[place as usize - 1];
            self.free = std::mem::replace(node, (flight, 0)).1;
            place
        };
        let mut at = self.first[word];
        if at == 0 {
            self.first[word] = place;
            return;
        }
        while self.flights[at as usize - 1].1 != 0 {
            at = self.flights[at as usize - 1].1;
        }
        self.flights[at as usize - 1].1 = place;
    }

    /// Removes the range that starts in a word and that `is_it` accepts; false if there is none.
    fn take(&mut self, word: u32, is_it: impl Fn(&Flight) -> bool) -> bool {
        let (mut before, mut at) = (0, self.first.get(word as usize).copied().unwrap_or(0));
        while at != 0 {
            let (flight, next) = self.flights[at as usize - 1];
            if is_it(&flight) {
                match before {
                    0 => self.first[word as usize] = next,
                    before => self.flights[before as usize - 1].1 = next,
                }
                self.flights[at as usize - 1].1 = self.free;
                self.free = at;
                return true;
            }
            (before, at) = (at, next);
        }
        false
    }

    /// The ranges that start in a word.
    fn starting_in(&self, word: u32) -> impl Iterator<Item = Flight> + '_ {
        let mut at = self.first.get(word as usize).copied().unwrap_or(0);
        std::iter::from_fn(move || {
            let (flight, next) = *self.flights.get((at as usize).checked_sub(1)?)?;
            at = next;
            Some(flight)
        })
    }

    /// Adds an operation of a warp that reads units of 16 bytes; returns the first copy that it
    /// conflicts with.
    pub(in crate::check) fn add_operands(&mut self, side: Side, units: &[u32]) -> Option<(Rule, Flight)> {
        let hit = units.iter().find_map(|&unit| self.look(unit, unit + 16, Hold::Reads));
        let last = units.iter().max().map_or(0, |unit| unit / 4 + 4) as usize;
        if self.words.len() < last {
            self.words.resize(last, 0);
        }
        for &unit in units {
            for word in &mut self.words[unit as usize / 4..][..4] {
                *word += u8::from(*word & !WRITTEN < !WRITTEN);
            }
        }
        self.operands.push(Operands { units: units.to_vec(), side });
        self.count += 1;
        hit
    }

    /// Removes the units after the operation has read them.
    pub(in crate::check) fn remove_operands(&mut self, instr: u32, warp: u32, units: &[u32]) {
        let is_it = |o: &Operands| (o.side.instr, o.side.warp) == (instr, warp) && o.units == units;
        let Some(at) = self.operands.iter().position(is_it) else { return };
        self.operands.remove(at);
        self.count -= 1;
        for &unit in units {
            for word in &mut self.words[unit as usize / 4..][..4] {
                *word -= u8::from(*word & !WRITTEN != 0);
            }
        }
    }

    /// Removes a copy that has landed, or has read its source.
    pub(in crate::check) fn remove(&mut self, start: u32, end: u32, hold: Hold, instr: u32) {
        if !self.take(start / 4, |f| (f.start, f.end, f.hold, f.side.instr) == (start, end, hold, instr)) {
            return;
        }
        self.count -= 1;
        for word in start / 4..end.div_ceil(4) {
            // Other reductions may be in flight.
            let stays = hold == Hold::Reduces && self.find(word * 4, word * 4 + 4, Hold::Reads).is_some();
            let word = &mut self.words[word as usize];
            if hold != Hold::Reads {
                *word &= if stays { u8::MAX } else { !WRITTEN };
            } else if *word & !WRITTEN != 0 {
                *word -= 1;
            }
        }
    }

    /// Removes the barrier at this offset.
    pub(in crate::check) fn end_barrier(&mut self, start: u32) {
        let barrier = |f: &Flight| f.start == start && f.hold == Hold::Barrier;
        let found = self.starting_in(start / 4).find(barrier);
        if let Some(Flight { end, hold, side, .. }) = found {
            self.remove(start, end, hold, side.instr);
        }
    }

    /// Returns the copy that an access to these bytes conflicts with.
    pub(in crate::check) fn look(&self, start: u32, end: u32, access: Hold) -> Option<(Rule, Flight)> {
        if self.is_harmed(start, end, access) { self.find(start, end, access) } else { None }
    }

    /// Returns true if an access conflicts with a copy at any word of a range.
    fn is_harmed(&self, start: u32, end: u32, access: Hold) -> bool {
        let to = (end.div_ceil(4) as usize).min(self.words.len());
        let harmful = if access == Hold::Reads { WRITTEN } else { u8::MAX };
        // Without an early exit the loop vectorises.
        let words = self.words.get(start as usize / 4..to).unwrap_or_default();
        words.iter().fold(0, |all, word| all | word) & harmful != 0
    }

    #[cold]
    fn find(&self, start: u32, end: u32, access: Hold) -> Option<(Rule, Flight)> {
        let lowest = start.saturating_sub(self.longest) / 4;
        let copies = (lowest..end.div_ceil(4)).flat_map(|word| self.starting_in(word));
        let operands = self.operands.iter().flat_map(|Operands { units, side }| {
            units.iter().map(|&unit| Flight { start: unit, end: unit + 16, hold: Hold::Reads, side: *side })
        });
        copies.chain(operands).find_map(|flight| {
            let overlaps = flight.start < end && start < flight.end;
            (overlaps && flight.hold.collides(access)).then(|| (rule(flight.hold, access), flight))
        })
    }

    /// The first lane of an access that conflicts with a copy, and the copy.
    pub(in crate::check) fn first_collision(
        &self,
        access: &Access,
        addresses: &[u32; 32],
    ) -> Option<(Rule, Flight, u32)> {
        let span = lanes::span(addresses, access.mask);
        if !self.is_harmed(span.lowest, span.highest.saturating_add(access.bytes), access.kind.into()) {
            return None;
        }
        Lanes(access.mask).find_map(|lane| {
            let start = addresses[lane as usize];
            self.look(start, start + access.bytes, access.kind.into()).map(|(rule, flight)| (rule, flight, lane))
        })
    }
}

/// Rule that an access breaks at a copy in flight.
fn rule(flying: Hold, access: Hold) -> Rule {
    match (flying, access) {
        (Hold::Barrier, _) => Rule::TouchesBarrier,
        (Hold::Reads, _) => Rule::OverwritesSource,
        (_, Hold::Reads) => Rule::ReadBeforeLanding,
        _ => Rule::WriteBeforeLanding,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flight(start: u32, end: u32, hold: Hold) -> Flight {
        Flight { start, end, hold, side: Side { instr: start, block: 0, warp: 0, lane: 0 } }
    }

    #[test]
    fn a_landing_copy_is_touched_by_nobody() {
        let mut all = InFlight::default();
        assert_eq!(all.add(flight(16, 32, Hold::Writes)), None);
        let hit = |all: &InFlight, start, end, hold| all.look(start, end, hold).map(|(rule, _)| rule);
        assert_eq!(hit(&all, 0, 16, Hold::Writes), None);
        assert_eq!(hit(&all, 28, 36, Hold::Reads), Some(Rule::ReadBeforeLanding));
        assert_eq!(hit(&all, 31, 32, Hold::Writes), Some(Rule::WriteBeforeLanding));
        all.remove(16, 32, Hold::Writes, 16);
        assert_eq!(hit(&all, 28, 36, Hold::Reads), None);
        assert!(all.is_empty());
    }

    #[test]
    fn bytes_that_copies_read_may_be_read_but_not_written() {
        let mut all = InFlight::default();
        assert_eq!(all.add(flight(0, 64, Hold::Reads)), None);
        assert_eq!(all.add(flight(32, 64, Hold::Reads)), None);
        assert_eq!(all.look(40, 44, Hold::Reads), None);
        all.remove(0, 64, Hold::Reads, 0);
        assert_eq!(all.look(0, 4, Hold::Writes), None);
        assert_eq!(all.look(32, 36, Hold::Writes).map(|(rule, _)| rule), Some(Rule::OverwritesSource));
    }

    #[test]
    fn reductions_meet_but_nothing_else_comes_between() {
        let mut all = InFlight::default();
        assert_eq!(all.add(flight(0, 4, Hold::Reduces)), None);
        assert_eq!(
            all.add(Flight { side: Side { instr: 9, block: 1, warp: 0, lane: 0 }, ..flight(0, 4, Hold::Reduces) }),
            None
        );
        all.remove(0, 4, Hold::Reduces, 9);
        assert_eq!(all.look(0, 4, Hold::Reads).map(|(rule, _)| rule), Some(Rule::ReadBeforeLanding));
        assert_eq!(all.look(0, 4, Hold::Writes).map(|(rule, _)| rule), Some(Rule::WriteBeforeLanding));
        assert_eq!(all.look(0, 4, Hold::Reduces), None);
        all.remove(0, 4, Hold::Reduces, 0);
        assert_eq!(all.look(0, 4, Hold::Writes), None);
    }
}
