//! Facts that the warps of a block know of other blocks: all lanes of a warp, or only some of them.
//!
//! An acquire pattern orders what follows it in its own thread (PTX ISA, "Causality Order"). So
//! what lanes acquire is theirs alone until a sync of the warp, or a barrier, passes it on; see
//! [`unshared`](super::unshared) for the same inside a block.
//!
//! What can be missed: of more than [`MOST`] groups of lanes the later ones count as one.

use std::sync::Arc;

use crate::check::order::reach::{Grade, Moment, Reach, join};

// THRESHOLD: later groups count as one; tested by
// crates/sim/src/check/order/held.rs::of_too_many_groups_of_lanes_the_later_ones_count_as_one
/// Groups of lanes of a warp that are told apart.
const MOST: usize = 32;

/// Facts that a warp knows.
#[derive(Debug, Default, Clone)]
pub(super) struct Held {
    /// Every lane knows it.
    all: Option<Arc<Reach>>,
    /// Facts that only some lanes know, with the mask of those lanes.
    some: Vec<(u32, Arc<Reach>)>,
}

impl Held {
    /// Returns true if no lane knows anything.
    pub(super) fn is_nothing(&self) -> bool {
        self.all.is_none() && self.some.is_empty()
    }

    /// Facts that every lane knows.
    pub(super) const fn of_all(&self) -> Option<&Arc<Reach>> {
        self.all.as_ref()
    }

    /// Facts that any of `lanes` knows.
    pub(super) fn of(&self, lanes: u32) -> Option<Arc<Reach>> {
        let mut known = self.all.clone();
        for (_, reach) in self.some.iter().filter(|(by, _)| by & lanes != 0) {
            join(&mut known, Some(reach));
        }
        known
    }

    /// Facts that each of `lanes` knows, in parts.
    pub(super) fn of_each(&self, lanes: u32) -> impl Iterator<Item = &Arc<Reach>> {
        let of_some = self.some.iter().filter(move |(by, _)| lanes & !by == 0);
        self.all.iter().chain(of_some.map(|(_, reach)| reach))
    }

    /// Everything that some lane knows, in parts.
    pub(super) fn parts(&self) -> impl Iterator<Item = &Arc<Reach>> {
        self.all.iter().chain(self.some.iter().map(|(_, reach)| reach))
    }

    /// Lanes of a warp of `whole` lanes learn what `reach` says.
    pub(super) fn learn(&mut self, lanes: u32, whole: u32, reach: Option<&Arc<Reach>>) {
        let Some(new) = reach else { return };
        if lanes & whole == whole {
            return join(&mut self.all, reach);
        }
        if self.all.as_ref().is_some_and(|all| Arc::ptr_eq(all, new)) {
            return;
        }
        let last = (self.some.len() >= MOST).then(|| self.some.len() - 1);
        match self.some.iter().position(|(by, _)| *by == lanes).or(last) {
            Some(at) => {
                let (by, known) = &mut self.some[at];
                *by |= lanes;
                if !Arc::ptr_eq(known, new) {
                    Arc::make_mut(known).join(new);
                }
            }
            None => self.some.push((lanes, Arc::clone(new))),
        }
    }

    /// Shares the facts of some lanes with all of them.
    pub(super) fn share(&mut self) {
        for (_, reach) in std::mem::take(&mut self.some) {
            join(&mut self.all, Some(&reach));
        }
    }

    /// Lanes synchronise: what one of them knows, the others know.
    pub(super) fn share_with(&mut self, lanes: u32, whole: u32) {
        if lanes & whole == whole {
            return self.share();
        }
        let (met, apart): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.some).into_iter().partition(|(by, _)| by & lanes != 0);
        self.some = apart;
        for (by, reach) in met {
            self.learn(by | lanes, whole, Some(&reach));
        }
    }

    /// Strength with which the lanes of `by` know that an access by any of `lanes` at `moment`
    /// happened before: it is enough if one of them does.
    pub(super) fn knows(&self, by: u32, moment: Moment, lanes: u32) -> Option<Grade> {
        let mut best = self.all.as_ref().and_then(|reach| reach.knows(moment, lanes));
        for (known_by, reach) in &self.some {
            let grade = reach.knows(moment, lanes);
            best = best.max(if known_by & by != 0 { grade } else { grade.map(|grade| grade.min(Grade::Unshared)) });
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::order::reach::Extent;

    const WHOLE: u32 = u32::MAX;

    fn reach(block: u32) -> Arc<Reach> {
        Arc::new(Reach::of(block, 0, Extent { all: 1, ..Extent::default() }))
    }

    fn moment(block: u32) -> Moment {
        Moment { block, warp: 0, tick: 0 }
    }

    #[test]
    fn what_one_lane_learns_the_others_know_only_by_lockstep() {
        let mut held = Held::default();
        held.learn(0b1, WHOLE, Some(&reach(5)));
        assert_eq!(held.knows(0b1, moment(5), 1), Some(Grade::Wide));
        assert_eq!(held.knows(0b10, moment(5), 1), Some(Grade::Unshared));
        assert_eq!(held.knows(0b11, moment(6), 1), None);
        assert!(held.of_all().is_none() && held.of(0b10).is_none() && held.of(0b11).is_some());
    }

    #[test]
    fn a_sync_of_some_lanes_passes_knowledge_on_to_them_alone() {
        let mut held = Held::default();
        held.learn(0b0001, WHOLE, Some(&reach(5)));
        held.learn(0b1000, WHOLE, Some(&reach(6)));
        held.share_with(0b0011, WHOLE);
        assert_eq!(held.knows(0b0010, moment(5), 1), Some(Grade::Wide));
        assert_eq!(held.knows(0b0010, moment(6), 1), Some(Grade::Unshared));
        held.share_with(WHOLE, WHOLE);
        assert_eq!(held.knows(0b0100, moment(6), 1), Some(Grade::Wide));
        assert!(held.some.is_empty());
    }

    #[test]
    fn of_too_many_groups_of_lanes_the_later_ones_count_as_one() {
        let group = |i: u32| 1 << (i % 32) | 1 << ((i + 1 + i / 32) % 32);
        let most = u32::try_from(MOST).unwrap();
        let mut held = Held::default();
        for i in 0..most {
            held.learn(group(i), WHOLE, Some(&reach(i)));
        }
        let knows = |held: &Held, by: u32, block: u32| held.knows(1 << by, moment(block), 1) == Some(Grade::Wide);
        // As many as are told apart: a group learns more without any other one's knowing it.
        held.learn(group(9), WHOLE, Some(&reach(100)));
        assert!(held.some.len() == MOST && knows(&held, 9, 100) && !knows(&held, 0, 100) && !knows(&held, 31, 100));
        assert!(knows(&held, 5, 5) && !knows(&held, 20, 5));
        // One more, and another: the last group and these know the same.
        held.learn(group(most), WHOLE, Some(&reach(101)));
        held.learn(group(most + 7), WHOLE, Some(&reach(102)));
        assert_eq!(held.some.len(), MOST);
        assert!([0, 2, 7, 9, 31].iter().all(|by| knows(&held, *by, 101) && knows(&held, *by, 102)));
        assert!(knows(&held, 5, 5) && !knows(&held, 20, 5) && !knows(&held, 20, 101));
    }
}
