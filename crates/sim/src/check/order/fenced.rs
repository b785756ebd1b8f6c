//! Facts that a fence of a warp gives its next strong write to release, towards other blocks (PTX
//! ISA, "Release and Acquire Patterns", 3).

use std::sync::Arc;

use crate::check::order::reach::{Extent, Reach, join};

/// Facts that a warp's last fence gives its next strong write to release.
#[derive(Debug, Default, Clone)]
pub(super) struct Fenced {
    /// The warp's own block; the lanes are those that fenced.
    pub(super) own: Extent,
    /// Other blocks, and what other warps fenced before a barrier.
    pub(super) others: Option<Arc<Reach>>,
    /// Both, if asked for before.
    pub(super) whole: Option<Arc<Reach>>,
}

impl Fenced {
    pub(super) fn is_nothing(&self) -> bool {
        self.own == Extent::default() && self.others.is_none()
    }

    /// Facts that a write by `lanes` releases.
    pub(super) fn given(&mut self, block: u32, warp: u32, lanes: u32) -> Option<Arc<Reach>> {
        if self.own == Extent::default() {
            return self.others.clone();
        }
        let own = self.own.only(lanes);
        let is_whole = own == self.own;
        if let Some(whole) = self.whole.as_ref().filter(|_| is_whole) {
            return Some(Arc::clone(whole));
        }
        let mut reach = Some(Arc::new(Reach::of(block, warp, own)));
        join(&mut reach, self.others.as_ref());
        if is_whole {
            self.whole.clone_from(&reach);
        }
        reach
    }

    pub(super) fn gather(&mut self) {
        self.own = self.own.gather();
        self.whole = None;
    }

    pub(super) fn join_others(&mut self, reach: Option<&Arc<Reach>>) {
        join(&mut self.others, reach);
        self.whole = None;
    }
}
