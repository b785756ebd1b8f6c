//! Sparse vector clock over blocks: for ranges of blocks, the extent of their accesses that
//! happened before.
//!
//! Blocks of one grid mostly do the same, so neighbours with equal clocks share one range; that
//! keeps a decoupled look-back over 100,000 blocks at a handful of ranges. Beyond [`MAX_RANGES`]
//! adjacent ranges are merged by their maximum, which may lose a finding; the report says so.

use std::sync::Arc;

// THRESHOLD: neighbouring blocks are told apart less exactly, which a finding says; tested by
// crates/sim/src/check/order/reach.rs::many_different_neighbours_are_merged_without_losing_what_was_known
// and
// crates/sim/src/check/tests/limits.rs::an_order_of_blocks_with_too_many_parts_is_told_once_and_invents_nothing
/// Ranges per list before neighbours are merged even though they differ.
const MAX_RANGES: usize = 256;

/// Strength with which an order is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::check) enum Grade {
    /// Known only through a fence or access of too small a scope.
    Narrow,
    /// Known through another lane's release, without a sync that gathered the lanes before.
    Lockstep,
    /// Known to another lane of the warp, not passed on by any warp sync.
    Unshared,
    /// Ordered by the memory model.
    Wide,
}

/// Kind of a fact about accesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::check) enum Fact {
    /// They come before a `fence.sc` that precedes any later one in Fence-SC order.
    Overtaken,
    /// They come before a `fence.sc` that has happened before.
    Fenced,
    /// A thread of this cluster has released them, to the cluster alone or beyond it.
    Told { cluster: u32, beyond: bool },
    /// They happened before.
    Known(Grade),
}

impl Fact {
    /// Returns true if the fact is about `fence.sc`.
    const fn is_of_fences(self) -> bool {
        matches!(self, Self::Overtaken | Self::Fenced)
    }
}

/// Position of an access: its block, warp and tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::check) struct Moment {
    pub(in crate::check) block: u32,
    pub(in crate::check) warp: u32,
    pub(in crate::check) tick: u32,
}

/// Extent to which the accesses of a block are known: those of any warp below tick `all`; of one
/// warp those of any lane below `gathered`, and those of `lanes` below `own`. The other lanes'
/// accesses below `own` are ordered by lockstep alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::check) struct Extent {
    pub(in crate::check) all: u32,
    pub(in crate::check) gathered: u32,
    pub(in crate::check) own: u32,
    pub(in crate::check) lanes: u32,
}

impl Extent {
    /// The extent with all lanes gathered.
    pub(in crate::check) const fn gather(self) -> Self {
        Self { gathered: self.own, lanes: 0, ..self }
    }

    /// Keeps only `lanes` of the single lanes.
    pub(in crate::check) const fn only(self, lanes: u32) -> Self {
        Self { lanes: self.lanes & lanes, ..self }
    }

    pub(in crate::check) fn join(self, other: Self) -> Self {
        let gathered = self.gathered.max(other.gathered);
        let lanes = |extent: Self| if extent.own > gathered { extent.lanes } else { 0 };
        let (all, own) = (self.all.max(other.all), self.own.max(other.own));
        Self { all, gathered, own, lanes: lanes(self) | lanes(other) }
    }
}

/// Blocks `start..end` with the extent to which they are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    start: u32,
    end: u32,
    extent: Extent,
}

/// Ranges, sorted and disjoint, for releases by one warp index.
#[derive(Debug, Clone, PartialEq, Eq)]
struct List {
    warp: u32,
    fact: Fact,
    ranges: Vec<Range>,
}

/// A set of happens-before facts about other blocks; immutable once shared.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::check) struct Reach {
    lists: Vec<List>,
    is_coarse: bool,
}

impl Reach {
    /// Clock of one block: `extent`, with `warp` as its one warp.
    pub(in crate::check) fn of(block: u32, warp: u32, extent: Extent) -> Self {
        let ranges = vec![Range { start: block, end: block + 1, extent }];
        Self { lists: vec![List { warp, fact: Fact::Known(Grade::Wide), ranges }], is_coarse: false }
    }

    /// Returns true if there are no facts.
    pub(in crate::check) const fn is_empty(&self) -> bool {
        self.lists.is_empty()
    }

    /// Returns true if ranges were merged, so that it may order too much.
    pub(in crate::check) const fn is_coarse(&self) -> bool {
        self.is_coarse
    }

    /// Returns true if there are facts about `fence.sc`.
    pub(in crate::check) fn is_of_fences(&self) -> bool {
        self.lists.iter().any(|list| list.fact.is_of_fences())
    }

    /// Returns true if there are facts for some clusters only.
    pub(in crate::check) fn is_told(&self) -> bool {
        self.lists.iter().any(|list| matches!(list.fact, Fact::Told { .. }))
    }

    /// The facts released to some clusters, as acquired by one of them.
    pub(in crate::check) fn acquired(&self) -> Self {
        self.restated(|fact| match fact {
            Fact::Told { .. } => Some(Fact::Known(Grade::Wide)),
            other => Some(other),
        })
    }

    /// The facts with each kind replaced by another, or dropped.
    pub(in crate::check) fn restated(&self, new: impl Fn(Fact) -> Option<Fact>) -> Self {
        let mut restated = Self { is_coarse: self.is_coarse, ..Self::default() };
        for list in &self.lists {
            if let Some(fact) = new(list.fact) {
                restated.join_list(&List { fact, ..list.clone() });
            }
        }
        restated
    }

    /// Returns the facts of kind `old` as facts of kind `new`, and no others.
    pub(in crate::check) fn turned(&self, old: Fact, new: Fact) -> Self {
        self.restated(|fact| (fact == old).then_some(new))
    }

    /// The facts with a strength of [`Grade::Narrow`].
    pub(in crate::check) fn narrowed(&self) -> Self {
        self.restated(|fact| (!fact.is_of_fences()).then_some(Fact::Known(Grade::Narrow)))
    }

    pub(in crate::check) fn join(&mut self, other: &Self) {
        self.is_coarse |= other.is_coarse;
        for list in &other.lists {
            self.join_list(list);
        }
    }

    fn join_list(&mut self, list: &List) {
        match self.lists.iter_mut().find(|mine| (mine.warp, mine.fact) == (list.warp, list.fact)) {
            Some(mine) => {
                mine.ranges = merge(&mine.ranges, &list.ranges);
                if mine.ranges.len() > MAX_RANGES {
                    mine.ranges = coarsen(&mine.ranges);
                    self.is_coarse = true;
                }
            }
            None => self.lists.push(list.clone()),
        }
    }

    /// Strength with which an access at `moment` by any lane of `lanes` is known to have happened
    /// before, if it is.
    pub(in crate::check) fn knows(&self, moment: Moment, lanes: u32) -> Option<Grade> {
        let known = |list: &List| {
            let Fact::Known(grade) = list.fact else { return None };
            let at = list.ranges.partition_point(|range| range.end <= moment.block);
            let extent = list.ranges.get(at).filter(|range| range.start <= moment.block)?.extent;
            let own = list.warp == moment.warp;
            if moment.tick < extent.all || (own && moment.tick < extent.gathered) {
                Some(grade)
            } else if own && moment.tick < extent.own {
                Some(if lanes & !extent.lanes == 0 { grade } else { grade.min(Grade::Lockstep) })
            } else {
                None
            }
        };
        self.lists.iter().filter_map(known).max()
    }
}

/// Adds facts to others.
pub(in crate::check) fn join(into: &mut Option<Arc<Reach>>, from: Option<&Arc<Reach>>) {
    match (into, from) {
        (_, None) => {}
        (into @ None, Some(from)) => *into = Some(Arc::clone(from)),
        (Some(known), Some(from)) if Arc::ptr_eq(known, from) => {}
        (Some(known), Some(from)) => Arc::make_mut(known).join(from),
    }
}

/// Appends, joining with an equal neighbour.
fn push(out: &mut Vec<Range>, range: Range) {
    if range.start >= range.end {
        return;
    }
    match out.last_mut() {
        Some(last) if last.end == range.start && last.extent == range.extent => {
            last.end = range.end;
        }
        _ => out.push(range),
    }
}

/// The union of two sorted lists; the maximum where they overlap.
fn merge(a: &[Range], b: &[Range]) -> Vec<Range> {
    let mut out = Vec::with_capacity(a.len() + b.len());
    let (mut a, mut b) = (a.iter().copied(), b.iter().copied());
    let (mut x, mut y) = (a.next(), b.next());
    loop {
        match (x, y) {
            (None, None) => return out,
            (Some(range), None) => {
                push(&mut out, range);
                x = a.next();
            }
            (None, Some(range)) => {
                push(&mut out, range);
                y = b.next();
            }
            (Some(mut l), Some(mut r)) => {
                if l.start != r.start {
                    // The part covered by only one of them.
                    let (first, second) = if l.start < r.start { (&mut l, r.start) } else { (&mut r, l.start) };
                    let end = first.end.min(second);
                    push(&mut out, Range { end, ..*first });
                    first.start = end;
                } else {
                    let end = l.end.min(r.end);
                    push(&mut out, Range { start: l.start, end, extent: l.extent.join(r.extent) });
                    l.start = end;
                    r.start = end;
                }
                x = if l.start < l.end { Some(l) } else { a.next() };
                y = if r.start < r.end { Some(r) } else { b.next() };
            }
        }
    }
}

/// Merges adjacent ranges by their maximum.
fn coarsen(ranges: &[Range]) -> Vec<Range> {
    let mut out: Vec<Range> = Vec::new();
    for range in ranges {
        match out.last_mut() {
            Some(last) if last.end == range.start => {
                last.end = range.end;
                last.extent = last.extent.join(range.extent);
            }
            _ => out.push(*range),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: u32 = u32::MAX;

    /// An extent with all lanes gathered.
    fn extent(all: u32, own: u32) -> Extent {
        Extent { all, gathered: all.max(own), own: all.max(own), lanes: 0 }
    }

    fn moment(block: u32, warp: u32, tick: u32) -> Moment {
        Moment { block, warp, tick }
    }

    #[test]
    fn a_fact_covers_its_block_up_to_its_ticks() {
        let reach = Reach::of(5, 1, extent(3, 7));
        assert_eq!(reach.knows(moment(5, 0, 2), ANY), Some(Grade::Wide));
        assert_eq!(reach.knows(moment(5, 0, 3), ANY), None);
        assert_eq!(reach.knows(moment(5, 1, 6), ANY), Some(Grade::Wide));
        assert_eq!(reach.knows(moment(5, 1, 7), ANY), None);
        assert_eq!(reach.knows(moment(4, 1, 0), ANY), None);
        assert_eq!(reach.knows(moment(6, 1, 0), ANY), None);
    }

    #[test]
    fn joining_agrees_with_a_plain_table_of_maxima() {
        let mut state = 12345u32;
        let mut random = move |n: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) % n
        };
        for _ in 0..200 {
            let mut table = vec![(0, 0); 40];
            let mut reach = Reach::default();
            for _ in 0..60 {
                let (block, all, own) = (random(40), random(3), random(3));
                let entry: &mut (u32, u32) = &mut table[block as usize];
                *entry = (entry.0.max(all), entry.1.max(own));
                let mut one = Reach::of(block, 2, extent(all, own));
                one.join(&reach);
                reach = one;
            }
            for (block, &(all, own)) in (0u32..).zip(&table) {
                for tick in 0..4 {
                    assert_eq!(reach.knows(moment(block, 0, tick), ANY).is_some(), tick < all);
                    assert_eq!(reach.knows(moment(block, 2, tick), ANY).is_some(), tick < all.max(own));
                }
            }
        }
    }

    #[test]
    fn equal_neighbours_share_one_range() {
        let mut reach = Reach::default();
        for block in 0..100_000 {
            let mut next = Reach::of(block, 0, extent(1, 2));
            next.join(&reach);
            reach = next;
        }
        assert_eq!(reach.lists[0].ranges.len(), 1);
    }

    #[test]
    fn many_different_neighbours_are_merged_without_losing_what_was_known() {
        let mut reach = Reach::default();
        for block in 0..2000 {
            reach.join(&Reach::of(block, 0, extent(block % 7, block % 7 + 1)));
        }
        assert!(reach.lists[0].ranges.len() <= MAX_RANGES + 1);
        for block in 0..2000 {
            assert!(reach.knows(moment(block, 0, block % 7), ANY).is_some());
        }
    }

    #[test]
    fn lanes_that_were_not_gathered_are_known_by_lockstep() {
        let mut reach = Reach::of(1, 2, Extent { all: 1, gathered: 3, own: 5, lanes: 0b01 });
        let known = |reach: &Reach, tick, lanes| reach.knows(moment(1, 2, tick), lanes);
        assert_eq!(known(&reach, 2, 0b11), Some(Grade::Wide));
        assert_eq!(known(&reach, 4, 0b01), Some(Grade::Wide));
        assert_eq!(known(&reach, 4, 0b10), Some(Grade::Lockstep));
        assert_eq!(known(&reach, 4, 0b11), Some(Grade::Lockstep));
        assert_eq!(known(&reach, 5, 0b01), None);
        assert_eq!(reach.narrowed().knows(moment(1, 2, 4), 0b10), Some(Grade::Narrow));
        reach.join(&Reach::of(1, 2, Extent { all: 1, gathered: 1, own: 6, lanes: 0b10 }));
        assert_eq!(known(&reach, 4, 0b11), Some(Grade::Wide));
        reach.join(&Reach::of(1, 2, extent(0, 6)));
        assert_eq!(known(&reach, 5, 0b100), Some(Grade::Wide));
    }

    #[test]
    fn narrow_knowledge_gives_way_to_wide() {
        let mut reach = Reach::of(1, 0, extent(4, 4)).narrowed();
        assert_eq!(reach.knows(moment(1, 0, 1), ANY), Some(Grade::Narrow));
        reach.join(&Reach::of(1, 0, extent(2, 2)));
        assert_eq!(reach.knows(moment(1, 0, 1), ANY), Some(Grade::Wide));
        assert_eq!(reach.knows(moment(1, 0, 3), ANY), Some(Grade::Narrow));
    }
}
