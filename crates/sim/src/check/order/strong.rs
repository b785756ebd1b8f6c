//! Fences and strong accesses in the order inside a block (PTX ISA, "Release and Acquire
//! Patterns").

use warpfold_ptx::Order;

use crate::check::access::{FenceKind, Kind};
use crate::check::order::block::BlockOrder;
use crate::check::order::clock::join_boxed;

impl BlockOrder {
    /// A fence of any scope by `mask` lanes of a warp.
    pub(crate) fn fence(&mut self, warp: u32, mask: u32, kind: FenceKind) {
        let w = warp as usize;
        if kind.acquires()
            && let Some((lanes, pending)) = self.pending[w].acquire(mask)
        {
            self.learn_by(warp, lanes, &pending);
        }
        if !kind.releases() {
            return;
        }
        let clock = self.stamp(warp, mask);
        join_boxed(&mut self.fenced[w], &clock);
    }

    /// A strong write or atomic of the location `key` by `mask` lanes; call before its value can be
    /// seen.
    pub(crate) fn release(&mut self, warp: u32, mask: u32, key: u64, kind: Kind, semantics: Order) {
        let w = warp as usize;
        let clock = if semantics.releases() {
            Some(self.stamp(warp, mask))
        } else {
            self.fenced[w].as_deref().map(|fenced| {
                let mut clock = *fenced;
                clock[w] = clock[w].only(mask);
                clock
            })
        };
        self.partial_order |= clock.is_some();
        self.sequential.write(warp, key);
        if clock.is_some() {
            self.sequential.tell(warp, key);
        }
        self.flags.write(warp, key, kind, semantics, clock.as_ref());
    }

    /// A strong read or atomic of the location `key` by `mask` lanes; call once its value is read.
    pub(crate) fn acquire(&mut self, warp: u32, mask: u32, key: u64, semantics: Order) {
        self.sequential.read(warp, key);
        self.sequential.hear(warp, key);
        if semantics.acquires() {
            if let Some(clock) = self.flags.acquire(warp, key) {
                self.learn_by(warp, mask, &clock);
            }
        } else if let Some(clock) = self.flags.observe(warp, key) {
            self.pending[warp as usize].see(mask, &Box::new(clock));
        }
    }

    /// Returns true if a relaxed write by `warp` would release anything.
    pub(crate) const fn has_fenced(&self, warp: u32) -> bool {
        self.fenced[warp as usize].is_some()
    }

    /// Returns true if a strong read could acquire anything.
    pub(crate) fn has_released(&self) -> bool {
        !self.flags.is_empty()
    }

    /// Returns true if a strong access by the warp may affect the order of fences.
    pub(crate) fn is_near_fence_sc(&self, warp: u32) -> bool {
        self.sequential.concerns(warp)
    }
}
