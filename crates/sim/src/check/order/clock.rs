//! Vector clocks over the warps of a block, with single lanes of a warp where no sync has gathered
//! all of them.
//!
//! What can be missed: where two clocks that name lanes of one warp are joined, the lanes of either
//! count as known up to the higher number.

/// Clock entry of one warp: records of all its lanes below `all`, and those of `lanes` below
/// `some`, happened before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::check) struct Known {
    pub(in crate::check) all: u32,
    pub(in crate::check) some: u32,
    pub(in crate::check) lanes: u32,
}

impl Known {
    /// Everything below `all`.
    pub(in crate::check) const fn all(all: u32) -> Self {
        Self { all, some: all, lanes: 0 }
    }

    /// The entry with every lane gathered.
    pub(in crate::check) const fn gathered(self) -> Self {
        Self::all(self.some)
    }

    /// Keeps only `lanes` of the single lanes.
    pub(in crate::check) const fn only(self, lanes: u32) -> Self {
        Self { lanes: self.lanes & lanes, ..self }
    }

    /// Entry of `lane`: its records below this number happened before.
    pub(in crate::check) const fn of(self, lane: u32) -> u32 {
        if self.lanes & 1 << lane != 0 { self.some } else { self.all }
    }

    fn join(&mut self, other: Self) {
        let all = self.all.max(other.all);
        let lanes = |known: Self| if known.some > all { known.lanes } else { 0 };
        *self = Self { all, some: self.some.max(other.some), lanes: lanes(*self) | lanes(other) };
    }
}

/// Index of the first mbarrier's agent, after the warps.
pub(in crate::check) const AGENTS: u32 = 32;
/// Index of the first warp's entry for proxy fences.
pub(in crate::check) const PROXIED: usize = 64;

/// Vector clock of a block: an entry per warp, per mbarrier for the copies that it tracks
/// ([`AGENTS`]), and per warp for proxy fences ([`PROXIED`]).
pub(in crate::check) type Clock = [Known; 96];

pub(in crate::check) const NOTHING: Clock = [Known::all(0); 96];

pub(in crate::check) fn join(into: &mut Clock, from: &Clock) {
    for (a, b) in into.iter_mut().zip(from) {
        a.join(*b);
    }
}

pub(in crate::check) fn join_boxed(into: &mut Option<Box<Clock>>, from: &Clock) {
    match into {
        Some(clock) => join(clock, from),
        None => *into = Some(Box::new(*from)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_joined_clock_knows_of_each_lane_at_least_what_either_knew() {
        let samples = [
            Known::all(3),
            Known { all: 1, some: 5, lanes: 0b01 },
            Known { all: 2, some: 4, lanes: 0b10 },
            Known { all: 0, some: 9, lanes: 0 },
        ];
        for a in samples {
            for b in samples {
                let mut joined = a;
                joined.join(b);
                for lane in 0..3 {
                    assert!(joined.of(lane) >= a.of(lane).max(b.of(lane)), "{a:?} {b:?} {joined:?}");
                }
                assert_eq!(joined.some, a.some.max(b.some));
            }
        }
    }

    #[test]
    fn lanes_that_all_knowledge_covers_are_forgotten() {
        let mut known = Known { all: 1, some: 5, lanes: 0b01 };
        known.join(Known::all(7));
        assert_eq!(known, Known::all(7));
    }
}
