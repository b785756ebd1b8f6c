//! Clocks that locations carry from releases to acquires inside a block.
//!
//! PTX ISA, "Release and Acquire Patterns" and "Observation Order": a read synchronises with the
//! release whose value it reads, or with one that only atomic read-modify-writes lie between. So an
//! atomic adds to what its location carries, and a store replaces it, but for what the same thread
//! has released there before (here: the same warp).
//!
//! What can be missed: a weak store, or a store by another block, does not replace anything here.

use std::collections::HashMap;

use warpfold_ptx::Order;

use crate::check::access::Kind;
use crate::check::order::clock::{Clock, NOTHING, join};

/// The locations at which a block has released anything.
#[derive(Debug, Default)]
pub(in crate::check) struct Flags {
    /// Clock that a read of the present value synchronises with.
    carried: HashMap<u64, Clock>,
    /// Clock that a warp has ever released at a location.
    released: HashMap<(u32, u64), Clock>,
    /// Clock that relaxed reads of a warp saw at a location: for an acquire there by the same warp.
    observed: HashMap<(u32, u64), Clock>,
}

impl Flags {
    pub(in crate::check) fn is_empty(&self) -> bool {
        self.carried.is_empty() && self.released.is_empty() && self.observed.is_empty()
    }

    pub(in crate::check) fn clear(&mut self) {
        if !self.is_empty() {
            self.carried.clear();
            self.released.clear();
            self.observed.clear();
        }
    }

    /// A strong write or atomic that gives away `clock`.
    pub(in crate::check) fn write(&mut self, warp: u32, key: u64, kind: Kind, semantics: Order, clock: Option<&Clock>) {
        if kind == Kind::Atomic {
            if let Some(clock) = clock {
                join(self.carried.entry(key).or_insert(NOTHING), clock);
            }
        } else {
            let mut carried = self.released.get(&(warp, key)).copied();
            if let Some(clock) = clock {
                join(carried.get_or_insert(NOTHING), clock);
            }
            match carried {
                Some(carried) => self.carried.insert(key, carried),
                None => self.carried.remove(&key),
            };
        }
        if let Some(clock) = clock
            && semantics.releases()
        {
            join(self.released.entry((warp, key)).or_insert(NOTHING), clock);
        }
    }

    /// Observes the clock of a location in a relaxed read by `warp`.
    pub(in crate::check) fn observe(&mut self, warp: u32, key: u64) -> Option<Clock> {
        let carried = self.carried.get(&key).copied()?;
        join(self.observed.entry((warp, key)).or_insert(NOTHING), &carried);
        Some(carried)
    }

    /// Clock that an acquire by `warp` gets.
    pub(in crate::check) fn acquire(&mut self, warp: u32, key: u64) -> Option<Clock> {
        let observed = self.observed.remove(&(warp, key));
        let mut clock = self.carried.get(&key).copied();
        if let Some(observed) = observed {
            join(clock.get_or_insert(NOTHING), &observed);
        }
        clock
    }
}
