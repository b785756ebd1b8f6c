//! Fence-SC order inside a block: which of two `fence.sc` came first, where a value that was read
//! tells.
//!
//! PTX ISA, "Memory Synchronization": a `fence.sc` synchronises with the later ones in Fence-SC
//! order. That order is drawn at run time, so that nothing may rely on the one that happened here,
//! but where it could not have been the other: a thread fences and reads a location strongly, and
//! what it reads is older than what another thread had written before its own fence. Were that
//! fence the first, the read would have seen the write ("Causality"). So would a write in place of
//! the read have followed the other one ("Coherence"). So a strong access leaves behind what its
//! warp's last `fence.sc` covers, a later strong write of the location picks that up, and the next
//! `fence.sc` of the writer's warp learns it. Between blocks: [`fence_sc`](super::fence_sc).
//!
//! What can be missed: an access by one lane counts with a fence by another of its warp.

use std::collections::HashMap;

use crate::check::access::FenceKind;
use crate::check::order::block::BlockOrder;
use crate::check::order::clock::{Clock, NOTHING, join, join_boxed};

/// What the `fence.sc` of a block have to do with one another.
#[derive(Debug)]
pub(in crate::check) struct Sequential {
    /// What the warp's last `fence.sc` covers.
    fenced: [Option<Box<Clock>>; 32],
    /// By location: what the fences before its strong accesses cover.
    accessed: HashMap<u64, Clock>,
    /// What the strong writes of a warp have overtaken: for its next `fence.sc`.
    overtaken: [Option<Box<Clock>>; 32],
}

impl Default for Sequential {
    fn default() -> Self {
        Self { fenced: [const { None }; 32], accessed: HashMap::new(), overtaken: [const { None }; 32] }
    }
}

impl Sequential {
    pub(in crate::check) fn clear(&mut self) {
        self.fenced.fill(None);
        self.accessed.clear();
        self.overtaken.fill(None);
    }

    /// Whether a strong access by the warp says anything of fences.
    pub(in crate::check) const fn has_fenced(&self, warp: u32) -> bool {
        self.fenced[warp as usize].is_some()
    }

    /// Whether any strong access has.
    pub(in crate::check) fn has_accesses(&self) -> bool {
        !self.accessed.is_empty()
    }

    /// A strong read.
    pub(in crate::check) fn read(&mut self, warp: u32, key: u64) {
        if let Some(fenced) = &self.fenced[warp as usize] {
            join(self.accessed.entry(key).or_insert(NOTHING), fenced);
        }
    }

    /// A strong write or atomic.
    pub(in crate::check) fn write(&mut self, warp: u32, key: u64) {
        if let Some(before) = self.accessed.get(&key) {
            join_boxed(&mut self.overtaken[warp as usize], before);
        }
        self.read(warp, key);
    }
}

impl BlockOrder {
    /// A `fence.sc` of any scope by `mask` lanes of a warp.
    pub(crate) fn fence_sc(&mut self, warp: u32, mask: u32) {
        if let Some(overtaken) = self.sequential.overtaken[warp as usize].take() {
            self.partial_order = true;
            self.learn_by(warp, mask, &overtaken);
        }
        self.fence(warp, mask, FenceKind::Sequential);
        let clock = self.stamp(warp, mask);
        self.sequential.fenced[warp as usize] = Some(Box::new(clock));
    }
}
