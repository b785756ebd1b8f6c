//! The cell of a word after an access, which [`judge`](super::judge) has judged.

use crate::check::access::{Kind, Lanes};
use crate::check::global::judge::{Visit, WORD};
use crate::check::global::readers::{Reading, each};
use crate::check::global::records::{PARTS, Reached};
use crate::check::global::shadow::{ByteWriter, Cell};

impl Visit<'_> {
    /// The cell after the access.
    pub(super) fn recorded(&mut self, cell: Cell, mask: u32, lane: u32, id: u32, address: u64) -> Cell {
        match self.access.kind {
            Kind::Read => self.recorded_read(cell, mask, lane, id),
            Kind::Write | Kind::Atomic => {
                let cell = self.recorded_write(cell, mask, lane, id, address);
                cell.with_init(mask)
            }
        }
    }

    fn recorded_read(&mut self, cell: Cell, mask: u32, lane: u32, id: u32) -> Cell {
        let before = cell.reader();
        let id = if mask == WORD { id } else { self.part_id(mask, before) };
        if !self.launch.orders_blocks {
            let foreign = self.foreign(before).is_some();
            let several = foreign || (self.is_record(before) && cell.has_several_readers());
            return cell.with_reader(id, lane, several);
        }
        if !self.is_record(before) || id == 0 {
            return cell.with_reader(id, lane, false);
        }
        let Self { launch, grid, records, access, .. } = self;
        match (Reading { launch, grid, records, lanes: access.mask }).join(id, before) {
            0 => cell.with_reader(id, lane, true),
            readers if readers == before => cell,
            readers => cell.with_reader(readers, lane, readers != id),
        }
    }

    /// The record for part of a word, joined with what this block did to the rest of it at the same
    /// time.
    fn part_id(&mut self, mask: u32, before: u32) -> u32 {
        let (tick, event) = (self.grid.tick(), self.order.event(self.access.warp));
        let rest = (self.is_record(before) && self.own().has(before))
            .then(|| self.launch.get(before))
            .flatten()
            .filter(|record| {
                record.at.tick == tick && record.time >= event && record.strength == Reached::of(self.access)
            })
            .filter(|record| record.kind == self.access.kind && record.at.warp == self.access.warp);
        self.id(mask | rest.map_or(0, |record| record.bytes), PARTS)
    }

    fn recorded_write(&mut self, cell: Cell, mask: u32, lane: u32, id: u32, address: u64) -> Cell {
        let strong = self.access.is_strong_between_blocks();
        let before = cell.writer();
        let foreign = self.foreign(before);
        if mask != WORD {
            return self.recorded_part(cell, mask, lane, address);
        }
        if !self.access.is_strong() {
            return cell.with_writer(id, lane, false).with_reader(0, 0, false);
        }
        let mut after = cell;
        if foreign.is_some() {
            // The write before takes the reader's place, so that a later plain access meets it.
            let several = self.have_several_blocks_read(cell);
            after = after.with_reader(before, cell.writer_lane(), several);
        } else if strong && !cell.is_strong() && self.is_record(before) && !self.is_record(cell.reader()) {
            // Of its own block as well: a strong write by another one is in no race with this one,
            // but with that.
            after = after.with_reader(before, cell.writer_lane(), false);
        }
        after.with_writer(id, lane, strong)
    }

    /// Whether certainly more than one block has read the word, so that any writer meets another's
    /// read.
    fn have_several_blocks_read(&self, cell: Cell) -> bool {
        if !self.is_record(cell.reader()) || !cell.has_several_readers() {
            return false;
        }
        if self.launch.readers(cell.reader()).is_none() {
            return true;
        }
        let readers = each(self.launch, cell.reader()).filter_map(|id| self.launch.get(id));
        let mut blocks = readers.filter(|record| record.kind == Kind::Read).map(|record| record.at.block);
        let first = blocks.next();
        blocks.any(|block| Some(block) != first)
    }

    fn recorded_part(&mut self, cell: Cell, mask: u32, lane: u32, address: u64) -> Cell {
        let strong = self.access.is_strong_between_blocks();
        let before = cell.writer();
        let id = self.part_id(mask, before);
        let covers = |other: u32| self.launch.get(other).is_none_or(|record| record.bytes & !mask == 0);
        let joined = self.launch.get(id).is_none_or(|record| record.bytes != mask) || covers(before);
        if before != self.launch.first && (!self.is_record(before) || (joined && self.foreign(before).is_none())) {
            let after = cell.with_writer(id, lane, strong);
            let clears = !self.access.is_strong() && each(self.launch, cell.reader()).all(covers);
            return if clears { after.with_reader(0, 0, false) } else { after };
        }
        let old = self.launch.get(before);
        let part = self.id(mask, PARTS);
        self.launch.split.update(address, |writers| {
            if let Some(old) = old {
                for byte in Lanes(old.bytes) {
                    writers[byte as usize] =
                        ByteWriter { id: before, lane: cell.writer_lane(), strong: cell.is_strong() };
                }
            }
            for byte in Lanes(mask) {
                writers[byte as usize] = ByteWriter { id: part, lane, strong };
            }
        });
        cell.with_writer(self.launch.first, 0, false)
    }
}
