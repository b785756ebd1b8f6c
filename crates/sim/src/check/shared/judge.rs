//! The general case of an access to shared memory: one lane, word by word or byte by byte, with
//! findings.

use super::shadow::SharedShadow;
use crate::check::access::{Kind, Lanes, Space};
use crate::check::findings::{Findings, Found, Rule, Side};
use crate::check::shared::packed::{ID_SHIFT, LANE, SPLIT, warp_of};
use crate::check::shared::split::Cell;
use crate::check::shared::visit::Visit;

impl SharedShadow {
    /// Judges and records a lane's access.
    #[inline(never)]
    pub(in crate::check) fn judge_lane(&mut self, visit: &Visit<'_>, lane: u32, findings: &mut Findings) {
        let access = visit.access;
        let address = u64::from(visit.addresses[lane as usize]);
        let mut worst = Worst(None);
        let mut uninitialized = None;
        let mut at = address;
        while at < address + u64::from(access.bytes) {
            let word = at as usize / 4;
            let bytes = (address + u64::from(access.bytes) - at).min(4 - at % 4) as u32;
            let mask = ((1u32 << bytes) - 1) << (at % 4);
            let init = &mut self.init[word];
            let missing = mask & !u32::from(*init);
            if access.kind != Kind::Write && missing != 0 && uninitialized.is_none() {
                uninitialized = Some(word as u64 * 4 + u64::from(missing.trailing_zeros()));
            }
            if access.kind != Kind::Read {
                *init |= mask as u8;
            }
            self.judge_word(visit, word, mask, lane, &mut worst);
            at += u64::from(bytes);
        }
        let this = Side { instr: access.instr, block: visit.block, warp: access.warp, lane };
        if let Some(address) = uninitialized {
            findings.add(Found {
                rule: Rule::Uninitialized,
                space: Space::Shared,
                address,
                this,
                other: None,
                count: 1,
            });
        }
        if let Some((rule, record, address)) = worst.0 {
            let context = visit.order.context(record >> ID_SHIFT);
            findings.add(Found {
                rule,
                space: Space::Shared,
                address,
                this,
                other: Some({
                    let (warp, lane) = context.by.unwrap_or((warp_of(record), record & LANE));
                    Side { instr: context.instr, block: visit.block, warp, lane }
                }),
                count: 1,
            });
        }
    }

    /// Judges and records the bytes of `mask` in one word.
    fn judge_word(&mut self, visit: &Visit<'_>, word: usize, mask: u32, lane: u32, worst: &mut Worst) {
        let crowds = visit.order.partial_order().then_some(&mut self.crowd);
        let mut cell = Cell { writer: self.writers[word], reader: self.readers[word], earlier: self.earlier[word] };
        let is_split = cell.writer == SPLIT && cell.earlier == self.floor;
        if cell.writer == SPLIT && !is_split {
            cell = Cell::default();
        }
        if !is_split && mask == 0xf {
            worst.add(visit.judge(&mut cell, crowds, word as u32, lane), word as u64 * 4);
            self.writers[word] = cell.writer;
            self.readers[word] = cell.reader;
            self.earlier[word] = cell.earlier;
            return;
        }
        let place = if is_split {
            cell.reader
        } else {
            let place = self.split.split(word, cell);
            self.writers[word] = SPLIT;
            self.readers[word] = place;
            self.earlier[word] = self.floor;
            place
        };
        let cells = self.split.bytes(place);
        let mut crowds = crowds;
        for byte in Lanes(mask) {
            let key = 1 << 31 | (word as u32) << 2 | byte;
            let crowd = crowds.as_deref_mut();
            worst.add(visit.judge(&mut cells[byte as usize], crowd, key, lane), word as u64 * 4 + u64::from(byte));
        }
    }
}

/// The worst conflict so far, the first among equals: its rule, the other record, the address.
struct Worst(Option<(Rule, u32, u64)>);

impl Worst {
    fn add(&mut self, found: Option<(Rule, u32)>, address: u64) {
        if let Some((rule, record)) = found
            && self.0.is_none_or(|(most, ..)| rule.severity() > most.severity())
        {
            self.0 = Some((rule, record, address));
        }
    }
}
