//! What is known of other blocks: for ranges of blocks, how far their accesses happened before.
//!
//! A sparse vector clock. Blocks of one grid mostly do the same, so neighbours with equal clocks share one range; that
//! keeps a decoupled look-back over 100,000 blocks at a handful of ranges. Beyond [`MAX_RANGES`] adjacent ranges are
//! merged by their maximum, which may lose a finding.

/// Ranges per list before neighbours are merged even though they differ.
const MAX_RANGES: usize = 256;

/// How firmly something is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Grade {
    /// Only through a fence or access of too small a scope.
    Narrow,
    /// As the memory model wants it.
    Wide,
}

/// One access's place in its block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moment {
    pub(super) block: u32,
    pub(super) warp: u32,
    pub(super) tick: u32,
}

/// Blocks `start..end`: accesses of any warp below `all`, and of the list's warp below `own`, happened before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    start: u32,
    end: u32,
    all: u32,
    own: u32,
}

/// Ranges, sorted and disjoint, for releases by one warp index.
#[derive(Debug, Clone, PartialEq, Eq)]
struct List {
    warp: u32,
    grade: Grade,
    ranges: Vec<Range>,
}

/// A set of happens-before facts about other blocks; immutable once shared.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Reach {
    lists: Vec<List>,
}

impl Reach {
    /// Everything of `block` below tick `all`, and of its `warp` below `own`.
    pub(super) fn of(block: u32, warp: u32, all: u32, own: u32) -> Self {
        let ranges = vec![Range { start: block, end: block + 1, all, own }];
        Self { lists: vec![List { warp, grade: Grade::Wide, ranges }] }
    }

    /// Whether it says nothing.
    pub(super) const fn is_empty(&self) -> bool {
        self.lists.is_empty()
    }

    /// The same, known only narrowly.
    pub(super) fn narrowed(&self) -> Self {
        let mut narrow = Self::default();
        for list in &self.lists {
            narrow.join_list(&List { grade: Grade::Narrow, ..list.clone() });
        }
        narrow
    }

    pub(super) fn join(&mut self, other: &Self) {
        for list in &other.lists {
            self.join_list(list);
        }
    }

    fn join_list(&mut self, list: &List) {
        match self.lists.iter_mut().find(|mine| (mine.warp, mine.grade) == (list.warp, list.grade)) {
            Some(mine) => {
                mine.ranges = merge(&mine.ranges, &list.ranges);
                if mine.ranges.len() > MAX_RANGES {
                    mine.ranges = coarsen(&mine.ranges);
                }
            }
            None => self.lists.push(list.clone()),
        }
    }

    /// Whether the access at `moment` is known to have happened before, and how firmly.
    pub(super) fn knows(&self, moment: Moment) -> Option<Grade> {
        let known = |list: &&List| {
            let at = list.ranges.partition_point(|range| range.end <= moment.block);
            list.ranges.get(at).is_some_and(|range| {
                range.start <= moment.block
                    && (moment.tick < range.all || (list.warp == moment.warp && moment.tick < range.own))
            })
        };
        self.lists.iter().filter(known).map(|list| list.grade).max()
    }
}

/// Appends, joining with an equal neighbour.
fn push(out: &mut Vec<Range>, range: Range) {
    if range.start >= range.end {
        return;
    }
    match out.last_mut() {
        Some(last) if last.end == range.start && (last.all, last.own) == (range.all, range.own) => {
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
                    // What only one of them covers.
                    let (first, second) = if l.start < r.start { (&mut l, r.start) } else { (&mut r, l.start) };
                    let end = first.end.min(second);
                    push(&mut out, Range { end, ..*first });
                    first.start = end;
                } else {
                    let end = l.end.min(r.end);
                    push(&mut out, Range { start: l.start, end, all: l.all.max(r.all), own: l.own.max(r.own) });
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
                last.all = last.all.max(range.all);
                last.own = last.own.max(range.own);
            }
            _ => out.push(*range),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(block: u32, warp: u32, tick: u32) -> Moment {
        Moment { block, warp, tick }
    }

    #[test]
    fn a_fact_covers_its_block_up_to_its_ticks() {
        let reach = Reach::of(5, 1, 3, 7);
        assert_eq!(reach.knows(moment(5, 0, 2)), Some(Grade::Wide));
        assert_eq!(reach.knows(moment(5, 0, 3)), None);
        assert_eq!(reach.knows(moment(5, 1, 6)), Some(Grade::Wide));
        assert_eq!(reach.knows(moment(5, 1, 7)), None);
        assert_eq!(reach.knows(moment(4, 1, 0)), None);
        assert_eq!(reach.knows(moment(6, 1, 0)), None);
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
                let mut one = Reach::of(block, 2, all, own);
                one.join(&reach);
                reach = one;
            }
            for (block, &(all, own)) in (0u32..).zip(&table) {
                for tick in 0..4 {
                    assert_eq!(reach.knows(moment(block, 0, tick)).is_some(), tick < all);
                    assert_eq!(reach.knows(moment(block, 2, tick)).is_some(), tick < all.max(own));
                }
            }
        }
    }

    #[test]
    fn equal_neighbours_share_one_range() {
        let mut reach = Reach::default();
        for block in 0..100_000 {
            let mut next = Reach::of(block, 0, 1, 2);
            next.join(&reach);
            reach = next;
        }
        assert_eq!(reach.lists[0].ranges.len(), 1);
    }

    #[test]
    fn many_different_neighbours_are_merged_without_losing_what_was_known() {
        let mut reach = Reach::default();
        for block in 0..2000 {
            reach.join(&Reach::of(block, 0, block % 7, block % 7 + 1));
        }
        assert!(reach.lists[0].ranges.len() <= MAX_RANGES + 1);
        for block in 0..2000 {
            assert!(reach.knows(moment(block, 0, block % 7)).is_some());
        }
    }

    #[test]
    fn narrow_knowledge_gives_way_to_wide() {
        let mut reach = Reach::of(1, 0, 4, 4).narrowed();
        assert_eq!(reach.knows(moment(1, 0, 1)), Some(Grade::Narrow));
        reach.join(&Reach::of(1, 0, 2, 2));
        assert_eq!(reach.knows(moment(1, 0, 1)), Some(Grade::Wide));
        assert_eq!(reach.knows(moment(1, 0, 3)), Some(Grade::Narrow));
    }
}
