//! Global memory between the proxies: bulk copies of bytes that the generic proxy accessed, and the
//! proxy fences that they need.
//!
//! The rules are those of shared memory (see [`phases`](crate::check::order::phases)): what the
//! generic proxy did before a bulk copy touches the bytes must come before a `fence.proxy.async`
//! that covers global memory. What the host and other launches did does.
//!
//! Copies of one block are in order among themselves, those of several are not: causality order
//! takes accesses by the generic proxy, or by one proxy and one block (PTX ISA, "Causality Order").
//! So what a copy of another block has written, and releases and acquires have handed on, takes a
//! fence, too.
//!
//! What can be missed: a copy over what another block's copy reads; a fence by any thread of the
//! block covers all that the block did before; where order has come from other blocks, one by the
//! block that made the access, later, or by any other at any time does; and an atomic never needs
//! one before a reduction.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use crate::check::Kind;
use crate::check::Space;
use crate::check::findings::{Found, Rule, Side};
use crate::check::global::judge::Visit;
use crate::check::global::records::Record;
use crate::check::global::shadow::Cell;
use crate::check::order::reach::{Grade, Moment};

/// Tick per block, before which its accesses precede a proxy fence.
#[derive(Debug, Default)]
pub(in crate::check) struct ProxyFences(Mutex<HashMap<u32, u32>>);

impl ProxyFences {
    /// Adds a proxy fence of a block for its accesses before a tick.
    pub(in crate::check) fn add(&self, block: u32, tick: u32) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(block, tick);
    }

    /// Returns true if a proxy fence may lie between an access of another block and what follows
    /// it.
    fn may_cover(&self, at: Moment) -> bool {
        let fences = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = fences.get(&at.block);
        fences.len() > usize::from(own.is_some()) || own.is_some_and(|&tick| at.tick < tick)
    }
}

impl Visit<'_> {
    /// Judges the bulk copy whose access this is against accesses of the generic proxy to the words
    /// of a range.
    pub(in crate::check) fn judge_proxy(&mut self, start: u64, bytes: u64) {
        let shadow = self.shadow;
        let (mut word, end) = (shadow.word(start), shadow.word(start + bytes - 1) + 1);
        while word < end {
            let cells = shadow.run(word, end - word);
            for cell in cells {
                let cell = Cell(cell.load(Ordering::Acquire));
                if !cell.is_old(self.launch.first)
                    && let Some((rule, other)) = self.unfenced(cell, shadow.base() + word as u64 * 4)
                {
                    let (space, address) = (Space::Global, shadow.base() + word as u64 * 4);
                    let lane = self.access.mask.trailing_zeros();
                    let this = Side { instr: self.access.instr, block: self.block, warp: self.access.warp, lane };
                    return self.findings.add(Found { rule, space, address, this, other: Some(other), count: 1 });
                }
                word += 1;
            }
        }
    }

    /// Returns the access in a cell that needs a proxy fence but has none.
    fn unfenced(&self, cell: Cell, address: u64) -> Option<(Rule, Side)> {
        let copy = self.access.kind;
        let found = |id: u32, lane: u32, rule: Rule| {
            let record = self.launch.get(id).filter(|record| self.is_bare(record))?;
            let rule = if record.by_proxy { Rule::UnfencedHandover } else { rule };
            let Moment { block, warp, .. } = record.at;
            Some((rule, Side { instr: record.instr, block, warp, lane }))
        };
        let of_writes = if copy == Kind::Write { Rule::UnfencedWrite } else { Rule::UnfencedRead };
        let written = if cell.writer() == self.launch.first {
            let writers = self.launch.split.get(address);
            writers.iter().find_map(|writer| found(writer.id, writer.lane, of_writes))
        } else {
            found(cell.writer(), cell.writer_lane(), of_writes)
        };
        let read =
            || if copy == Kind::Read { None } else { found(cell.reader(), cell.reader_lane(), Rule::UnfencedWrite) };
        written.or_else(read)
    }

    /// Returns true if an access lacks the proxy fence that it needs.
    fn is_bare(&self, record: &Record) -> bool {
        let is_own = record.at.block == self.block;
        let is_covered = || {
            (is_own && record.at.tick < self.grid.proxy_fence_tick())
                || ((!is_own || self.grid.is_informed(self.access.warp))
                    && self.launch.proxy_fences.may_cover(record.at))
        };
        let is_reduced = record.kind == Kind::Atomic && self.access.kind == Kind::Atomic;
        // Without any order between the blocks it is a race.
        let is_handed_over = || {
            let by = (self.access.warp, self.access.mask);
            !is_own && record.kind != Kind::Read && self.grid.knows(by, record.at, 0) == Some(Grade::Wide)
        };
        !is_reduced && (!record.by_proxy || is_handed_over()) && !is_covered()
    }
}
