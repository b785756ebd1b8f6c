//! Checks of global memory against a block's pending bulk copies.
//!
//! Until its wait a copy may move its bytes at any time: no thread may read or overwrite what a
//! store writes, or overwrite what a load reads. A copy is over when its bytes have moved here,
//! which is at the wait that covers it.

use super::asynchronous_checks::side;
use super::checking::Checking;
use super::machine::Machine;
use super::row::LANES;
use crate::asynchronous::transfers::{self, Place, Thread};
use crate::check::{Found, Kind, Rule, Side, Space};

impl Machine {
    /// Finds pending copies that conflict with a warp's access to global memory.
    #[inline(always)]
    pub(super) fn check_global_flights(&mut self, by: (u32, Kind), bytes: u32, at: &[u64; LANES], mask: u32) {
        let loads = &self.cluster.peers[self.cluster.rank as usize].loads;
        if !self.asynchronous.stores.is_empty() || (by.1 != Kind::Read && !loads.is_empty()) {
            self.collide_in_global(by, bytes, at, mask);
        }
    }

    #[inline(never)]
    fn collide_in_global(&mut self, (instr, kind): (u32, Kind), bytes: u32, at: &[u64; LANES], mask: u32) {
        let lanes = (0..32u32).filter(|lane| mask >> lane & 1 != 0);
        let Some(low) = lanes.clone().map(|lane| at[lane as usize]).min() else { return };
        let high = lanes.clone().map(|lane| at[lane as usize]).max().unwrap_or(low) + u64::from(bytes);
        let mut hit = None;
        self.each_flight(kind, (low, high), |piece, rule, other| {
            let meets = |lane: &u32| at[*lane as usize] < piece.1 && piece.0 < at[*lane as usize] + u64::from(bytes);
            if let Some(lane) = lanes.clone().find(meets) {
                hit = Some((lane, at[lane as usize].max(piece.0), rule, other));
            }
        });
        if let Some((lane, address, rule, other)) = hit {
            let this = side(instr, Thread { block: self.block, warp: self.warp, lane });
            self.found_flight(rule, address, this, other);
        }
    }

    /// Finds stores that conflict with a new copy.
    pub(super) fn check_flights_of_copy(&mut self, instr: u32, by: Thread, place: &Place, bytes: u32, kind: Kind) {
        if self.asynchronous.stores.is_empty() {
            return;
        }
        let mut hit = None;
        transfers::pieces(place, 0, bytes, |piece| {
            let Some(start) = piece.global.filter(|_| hit.is_none()) else { return };
            let range = (start, start + u64::from(piece.bytes));
            self.each_flight(kind, range, |other_piece, rule, other| {
                hit = Some((start.max(other_piece.0), rule, other))
            });
        });
        if let Some((address, rule, other)) = hit {
            self.found_flight(rule, address, side(instr, by), other);
        }
    }

    /// Calls for each piece of a pending copy that conflicts with an access to a range.
    fn each_flight(&self, kind: Kind, (low, high): (u64, u64), mut each: impl FnMut((u64, u64), Rule, Side)) {
        let mut look = |place: &Place, bytes: u32, rule: Rule, other: Side| {
            transfers::pieces(place, 0, bytes, |piece| {
                if let Some(start) = piece.global
                    && start < high
                    && low < start + u64::from(piece.bytes)
                {
                    each((start, start + u64::from(piece.bytes)), rule, other);
                }
            });
        };
        for store in self.asynchronous.stores.iter().filter(|store| store.span.0 < high && low < store.span.1) {
            let rule = if kind == Kind::Read { Rule::ReadBeforeLanding } else { Rule::WriteBeforeLanding };
            if kind != Kind::Atomic || store.reduction.is_none() {
                look(&store.to, store.bytes, rule, side(store.instruction, store.by));
            }
        }
        let loads = &self.cluster.peers[self.cluster.rank as usize].loads;
        for load in loads.iter().filter(|load| kind != Kind::Read && load.span.0 < high && low < load.span.1) {
            look(&load.from, load.bytes, Rule::OverwritesSource, side(load.instruction, load.by));
        }
    }

    fn found_flight(&mut self, rule: Rule, address: u64, this: Side, other: Side) {
        if let Some(Checking { findings, .. }) = self.checking.as_deref_mut() {
            findings.add(Found { rule, space: Space::Global, address, this, other: Some(other), count: 1 });
        }
    }
}
