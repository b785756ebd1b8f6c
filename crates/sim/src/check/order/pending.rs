//! Facts that strong reads of a warp saw, and no fence has acquired: acquire pattern 3, by lanes.
//!
//! The fence has to come behind the read in the same thread (PTX ISA, "Release and Acquire
//! Patterns"). What can be missed: what several lanes saw counts as seen by each of them; and a
//! sync of the warp lets the fence of one lane count for what another has read, which the ISA
//! promises less clearly.

use std::sync::Arc;

use crate::check::order::clock::{self, Clock};
use crate::check::order::reach::Reach;

/// Facts that a location carries.
pub(super) trait Facts: Clone {
    /// Adds the facts of another location.
    fn add(&mut self, other: &Self);
}

impl Facts for Arc<Reach> {
    fn add(&mut self, other: &Self) {
        if !Self::ptr_eq(self, other) {
            Self::make_mut(self).join(other);
        }
    }
}

impl Facts for Box<Clock> {
    fn add(&mut self, other: &Self) {
        clock::join(self, other);
    }
}

/// Facts that lanes of a warp have seen, with the mask of the lanes.
#[derive(Debug, Clone)]
pub(super) struct Pending<F>(Option<(u32, F)>);

impl<F> Default for Pending<F> {
    fn default() -> Self {
        Self(None)
    }
}

impl<F: Facts> Pending<F> {
    /// Adds facts of a release that `lanes` have seen.
    pub(super) fn see(&mut self, lanes: u32, facts: &F) {
        match &mut self.0 {
            Some((by, seen)) => {
                *by |= lanes;
                seen.add(facts);
            }
            None => self.0 = Some((lanes, facts.clone())),
        }
    }

    /// Facts that any lane has seen.
    pub(super) fn seen(&self) -> Option<&F> {
        self.0.as_ref().map(|(_, facts)| facts)
    }

    /// Shares the facts with `lanes`, which synchronise.
    pub(super) fn share_with(&mut self, lanes: u32) {
        if let Some((by, _)) = self.0.as_mut().filter(|(by, _)| *by & lanes != 0) {
            *by |= lanes;
        }
    }

    /// Takes the facts at a fence by `lanes`: those of them that have read something, and the
    /// facts. Other lanes' reads wait for a fence of theirs.
    pub(super) fn acquire(&mut self, lanes: u32) -> Option<(u32, F)> {
        let (by, facts) = self.0.take()?;
        let (now, later) = (by & lanes, by & !lanes);
        if later != 0 {
            self.0 = Some((later, facts.clone()));
        }
        (now != 0).then_some((now, facts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_acquires_for_the_lanes_that_have_read_and_leaves_the_others_reads_alone() {
        let mut pending = Pending::default();
        pending.see(0b011, &Arc::new(Reach::default()));
        let mut acquires = |lanes| pending.acquire(lanes).map(|(by, _)| by);
        assert_eq!(acquires(0b100), None);
        assert_eq!(acquires(0b101), Some(0b001));
        assert_eq!(acquires(0b111), Some(0b010));
        assert_eq!(acquires(u32::MAX), None);
    }

    #[test]
    fn a_sync_lets_another_lane_fence() {
        let mut pending = Pending::default();
        pending.see(0b001, &Arc::new(Reach::default()));
        pending.share_with(0b110);
        assert!(pending.clone().acquire(0b010).is_none());
        pending.share_with(0b011);
        assert_eq!(pending.acquire(0b010).map(|(by, _)| by), Some(0b010));
    }
}
