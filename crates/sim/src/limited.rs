//! Memory ranges of a launch: checked launches report accesses outside of them.
//!
//! A buffer is judged only if the launch was given parts of it, and not if a parameter holds
//! another address in it, which the kernel may follow. Asynchronous copies are not judged.

use std::sync::Arc;

use crate::check::Kind;
use crate::granted::Granted;
use crate::memory::{Allocation, Guard};

/// Permitted accesses to one allocation.
#[derive(Debug)]
struct Limits {
    allocation: Arc<Allocation>,
    /// Readable address ranges, sorted and disjoint.
    readable: Vec<(u64, u64)>,
    /// Ranges that may be written.
    writable: Vec<(u64, u64)>,
}

/// The limits of one launch, which end with it.
#[derive(Debug, Default)]
pub(crate) struct Limited(Vec<Limits>);

/// Merges overlapping and adjacent ranges.
fn union(parts: impl Iterator<Item = Granted>) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> =
        parts.map(|part| (part.address, part.address.saturating_add(part.bytes))).collect();
    ranges.sort_unstable();
    let mut all: Vec<(u64, u64)> = Vec::new();
    for (start, end) in ranges {
        match all.last_mut() {
            Some((_, last)) if start <= *last => *last = end.max(*last),
            _ => all.push((start, end)),
        }
    }
    all
}

fn holds(ranges: &[(u64, u64)], start: u64, end: u64) -> bool {
    let at = ranges.partition_point(|range| range.0 <= start);
    at.checked_sub(1).is_some_and(|at| end <= ranges[at].1)
}

impl Limited {
    /// Computes the limits of a launch with these parameters, for the live allocations, sorted by
    /// address.
    pub(crate) fn new(granted: &[Granted], params: &[u8], live: &[Arc<Allocation>]) -> Self {
        let mut all = Vec::new();
        for allocation in live {
            let (first, end) = (allocation.base, allocation.base + allocation.bytes);
            let parts: Vec<Granted> =
                granted.iter().copied().filter(|part| (first..end).contains(&part.address)).collect();
            let (words, _) = params.as_chunks::<8>();
            let is_unknown = |word: &[u8; 8]| {
                let address = u64::from_le_bytes(*word);
                (first..end).contains(&address) && !parts.iter().any(|part| part.address == address)
            };
            if parts.is_empty() || words.iter().any(is_unknown) {
                continue;
            }
            let readable = union(parts.iter().copied());
            let writable = union(parts.iter().copied().filter(|part| part.writable));
            let guard = match (holds(&readable, first, end), holds(&writable, first, end)) {
                (_, true) => continue,
                (true, false) => Guard::Writes,
                (false, false) => Guard::Parts,
            };
            if allocation.limit(guard) {
                all.push(Limits { allocation: Arc::clone(allocation), readable, writable });
            }
        }
        Self(all)
    }

    /// Reason to refuse an access, if there is one.
    pub(crate) fn refusal(&self, address: u64, bytes: u64, kind: Kind) -> Option<&'static str> {
        let inside = |limits: &&Limits| {
            (limits.allocation.base..limits.allocation.base + limits.allocation.bytes).contains(&address)
        };
        let limits = self.0.iter().find(inside)?;
        let end = address + bytes;
        if kind != Kind::Read && holds(&limits.writable, address, end) {
            None
        } else if !holds(&limits.readable, address, end) {
            Some("leaves the parts of a buffer that the launch was given")
        } else if kind == Kind::Read {
            None
        } else {
            Some("writes an argument that was passed to be read only")
        }
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        for limits in &self.0 {
            limits.allocation.lift();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_parts_are_one() {
        let part = |address, bytes| Granted { address, bytes, writable: true };
        let ranges = union([part(64, 8), part(16, 8), part(24, 8), part(20, 2)].into_iter());
        assert_eq!(ranges, [(16, 32), (64, 72)]);
        assert!(holds(&ranges, 20, 28) && holds(&ranges, 64, 72) && holds(&ranges, 16, 32));
        assert!(!holds(&ranges, 28, 36) && !holds(&ranges, 8, 16) && !holds(&ranges, 71, 73));
    }
}
