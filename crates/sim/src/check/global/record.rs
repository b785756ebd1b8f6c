//! Update of a word's cell after an access, which [`judge`](super::judge) has judged.

use crate::check::access::{Kind, Lanes};
use crate::check::global::judge::{Visit, WORD};
use crate::check::global::readers::{Reading, each};
use crate::check::global::records::{PARTS, Reached, Record};
use crate::check::global::shadow::{ByteWriter, Cell};

/// The record of an access to part of a word, and its lane.
#[derive(Debug, Clone, Copy)]
struct Part {
    id: u32,
    lane: u32,
    lane_bytes: u32,
}

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
        let (id, lane) = if mask == WORD {
            (id, lane)
        } else {
            let part = self.part(mask, lane, (before, cell.reader_lane()));
            (part.id, part.lane)
        };
        if id != 0 && before == id && !cell.has_several_readers() {
            return cell;
        }
        let is_foreign = self.foreign(before).is_some() || (self.is_record(before) && cell.has_several_readers());
        if (is_foreign && !self.launch.orders_blocks) || !self.is_record(before) || id == 0 {
            return cell.with_reader(id, lane, is_foreign);
        }
        let turn = (32 + cell.reader_lane() - lane) % 32;
        let Self { launch, order, grid, records, access, .. } = self;
        let joined = Reading { launch, order, grid, records, lanes: access.mask }.join(id, before, turn);
        match joined.to {
            0 => cell.with_reader(id, lane, is_foreign),
            readers if readers == before && joined.is_mixed => cell,
            readers => cell.with_reader(readers, lane, joined.is_mixed),
        }
    }

    /// The record for part of a word, joined with this block's accesses to the rest of it at the
    /// same time, whose record and lane are `before`.
    fn part(&mut self, mask: u32, lane: u32, (before, lane_before): (u32, u32)) -> Part {
        let (tick, event) = (self.grid.tick(), self.order.event(self.access.warp));
        let rest = (self.is_record(before) && self.own().has(before))
            .then(|| self.launch.get(before))
            .flatten()
            .filter(|record| {
                record.at.tick == tick && record.time >= event && record.strength == Reached::of(self.access)
            })
            .filter(|record| record.kind == self.access.kind && record.at.warp == self.access.warp);
        let rest_bytes = rest.map_or(0, |record| record.bytes);
        let (lane, lane_bytes) = rest.map_or((lane, 4), |rest| self.joined_lane(mask, lane, rest, lane_before));
        Part { id: self.id(mask | rest_bytes, lane_bytes), lane, lane_bytes }
    }

    /// The lane to record for parts of a word, and the bytes per lane: one lane with all of them,
    /// or neighbours that share the word under the first lane.
    fn joined_lane(&self, mask: u32, lane: u32, rest: Record, lane_before: u32) -> (u32, u32) {
        let size = self.access.bytes;
        let first = |lane: u32, bytes: u32| (32 + lane - bytes.trailing_zeros() / size) % 32;
        let neighbours_first = match rest.lane_bytes {
            4 if rest.bytes.count_ones() == size => Some(first(lane_before, rest.bytes)),
            bytes => (bytes == size).then_some(lane_before),
        };
        if rest.lane_bytes == 4 && lane_before == lane {
            (lane, 4)
        } else if neighbours_first == Some(first(lane, mask)) {
            (first(lane, mask), size)
        } else {
            (lane, PARTS)
        }
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
            // The previous write takes the reader's place, so that a later plain access is compared
            // with it.
            let several = self.have_several_blocks_read(cell);
            after = after.with_reader(before, cell.writer_lane(), several);
        } else if strong && !cell.is_strong() && self.is_record(before) && !self.is_record(cell.reader()) {
            // Of its own block as well: a strong write by another one is in no race with this one,
            // but with that.
            after = after.with_reader(before, cell.writer_lane(), false);
        }
        after.with_writer(id, lane, strong)
    }

    /// Returns true if certainly more than one block has read the word, so that any writer meets
    /// another's read.
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
        let part = self.part(mask, lane, (before, cell.writer_lane()));
        let covers = |other: u32| self.launch.get(other).is_none_or(|record| record.bytes & !mask == 0);
        let joined = self.launch.get(part.id).is_none_or(|record| record.bytes != mask) || covers(before);
        let is_ordered = part.lane_bytes != PARTS;
        if before != self.launch.first
            && (!self.is_record(before) || (joined && is_ordered && self.foreign(before).is_none()))
        {
            let after = cell.with_writer(part.id, part.lane, strong);
            let clears = !self.access.is_strong() && each(self.launch, cell.reader()).all(covers);
            return if clears { after.with_reader(0, 0, false) } else { after };
        }
        let old = self.launch.get(before);
        let part = self.id(mask, 4);
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
