//! Fence-SC order inside a block: which of two `fence.sc` came first, if a value that was read
//! determines it.
//!
//! PTX ISA, "Memory Synchronization": a `fence.sc` synchronises with the later ones in Fence-SC
//! order. That order is chosen at run time, so a program may only rely on it where the other order
//! is impossible: a thread fences and reads a location strongly, and reads a value older than what
//! another thread had written before its own fence. Had that fence been first, the read would have
//! seen the write ("Causality"). The same holds for a write in place of the read ("Coherence"). So
//! a strong access leaves a mark of what the fences before it cover, a later strong write of the
//! location picks it up, as does a strong read that observes such a write, and the next `fence.sc`
//! after them learns it. Between blocks: [`fence_sc`](super::fence_sc).
//!
//! What can be missed: an access by one lane counts with a fence by another of its warp; and what
//! was ever released at a location or a barrier tells of fences who acquires there.

use std::collections::HashMap;

use crate::check::access::FenceKind;
use crate::check::order::block::BlockOrder;
use crate::check::order::clock::{Clock, NOTHING, join, join_boxed};

/// State of a warp, or of a location's readers, in Fence-SC order.
#[derive(Debug, Default, Clone)]
struct Fences {
    /// Accesses covered by the fences that come before.
    behind: Option<Box<Clock>>,
    /// Accesses covered by the fences that precede the next one.
    overtaken: Option<Box<Clock>>,
}

impl Fences {
    const fn is_nothing(&self) -> bool {
        self.behind.is_none() && self.overtaken.is_none()
    }

    fn add(&mut self, other: &Self) {
        for (to, from) in [(&mut self.behind, &other.behind), (&mut self.overtaken, &other.overtaken)] {
            if let Some(from) = from {
                join_boxed(to, from);
            }
        }
    }
}

/// Mark that strong accesses leave at a location: the accesses that the fences before them cover.
#[derive(Debug)]
struct Left {
    all: Clock,
    /// Accesses covered before or by the last write.
    written: Option<Box<Clock>>,
}

/// Fence-SC order of a block.
#[derive(Debug, Default)]
pub(in crate::check) struct Sequential {
    warps: [Fences; 32],
    /// Marks by location.
    left: HashMap<u64, Left>,
    /// States by the place where they are handed on.
    handed_on: HashMap<u64, Fences>,
}

impl Sequential {
    pub(in crate::check) fn clear(&mut self) {
        self.warps = Default::default();
        self.left.clear();
        self.handed_on.clear();
    }

    /// Returns true if a strong access by the warp may change the order of fences.
    pub(in crate::check) fn concerns(&self, warp: u32) -> bool {
        self.warps[warp as usize].behind.is_some() || !self.left.is_empty()
    }

    /// Effect of a strong read.
    pub(in crate::check) fn read(&mut self, warp: u32, key: u64) {
        if let Some(Left { written: Some(written), .. }) = self.left.get(&key) {
            join_boxed(&mut self.warps[warp as usize].overtaken, written);
        }
        self.leave(warp, key);
    }

    /// Effect of a strong write or atomic.
    pub(in crate::check) fn write(&mut self, warp: u32, key: u64) {
        if let Some(left) = self.left.get(&key) {
            join_boxed(&mut self.warps[warp as usize].overtaken, &left.all);
        }
        self.leave(warp, key);
        if let Some(left) = self.left.get_mut(&key) {
            left.written = Some(Box::new(left.all));
        }
    }

    fn leave(&mut self, warp: u32, key: u64) {
        if let Some(behind) = &self.warps[warp as usize].behind {
            let left = self.left.entry(key).or_insert(Left { all: NOTHING, written: None });
            join(&mut left.all, behind);
        }
    }

    /// Passes on a warp's state at a release, or an arrival at a barrier.
    pub(in crate::check) fn tell(&mut self, warp: u32, key: u64) {
        let known = &self.warps[warp as usize];
        if !known.is_nothing() {
            self.handed_on.entry(key).or_default().add(known);
        }
    }

    /// Takes over the state at an acquire, or the end of a wait.
    pub(in crate::check) fn hear(&mut self, warp: u32, key: u64) {
        if let Some(told) = self.handed_on.get(&key) {
            self.warps[warp as usize].add(told);
        }
    }
}

impl BlockOrder {
    /// A `fence.sc` of any scope by `mask` lanes of a warp.
    pub(crate) fn fence_sc(&mut self, warp: u32, mask: u32) {
        if let Some(overtaken) = self.sequential.warps[warp as usize].overtaken.take() {
            self.partial_order = true;
            self.learn_by(warp, mask, &overtaken);
        }
        self.fence(warp, mask, FenceKind::Sequential);
        let clock = self.stamp(warp, mask);
        join_boxed(&mut self.sequential.warps[warp as usize].behind, &clock);
    }
}
