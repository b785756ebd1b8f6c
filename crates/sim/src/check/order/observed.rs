//! Strong writes of shared memory that strong reads of the block have observed.
//!
//! As between blocks ([`observed`](crate::check::global::observed)): what comes after the read
//! comes after the write, without a fence, but not after what came before the write (PTX ISA,
//! "Causality Order"). Kept until the next barrier of the whole block.

use std::collections::HashMap;

/// A strong read by lanes of a warp.
#[derive(Debug, Clone, Copy)]
pub(in crate::check) struct Observation {
    /// The shadow's record of the write.
    pub(in crate::check) writer: u32,
    /// The number of the read's record.
    pub(in crate::check) read: u32,
    pub(in crate::check) warp: u32,
    pub(in crate::check) lanes: u32,
}

/// The observations of a block, by word.
#[derive(Debug, Default)]
pub(in crate::check) struct Observed(HashMap<u32, Vec<Observation>>);

impl Observed {
    pub(in crate::check) fn clear(&mut self) {
        self.0.clear();
    }

    pub(in crate::check) fn note(&mut self, word: u32, new: Observation) {
        let all = self.0.entry(word).or_default();
        match all.iter_mut().find(|old| (old.writer, old.warp) == (new.writer, new.warp)) {
            // Later lanes count as reading together with the first: may lose a finding, never
            // invents one.
            Some(old) => old.lanes |= new.lanes,
            None => all.push(new),
        }
    }

    /// Returns true if some read that `is_before` accepts has observed a write of the word.
    pub(in crate::check) fn any(&self, word: u32, writer: u32, is_before: impl Fn(&Observation) -> bool) -> bool {
        self.0.get(&word).is_some_and(|all| all.iter().any(|seen| seen.writer == writer && is_before(seen)))
    }
}
