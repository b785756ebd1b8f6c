//! Fast path of global accesses: by a block to words that no other has touched in a relevant way.
//!
//! Each decides by a cell alone, and gives way to [`between`](crate::check::global::judge) where
//! that does not do.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::check::global::judge::WORD;
use crate::check::global::numbers::Own;
use crate::check::global::readers::Joined;
use crate::check::global::shadow::Cell;

/// Context of quick reads of whole words.
pub(in crate::check) struct Reads<'a> {
    pub(in crate::check) id: u32,
    pub(in crate::check) own: Own<'a>,
    pub(in crate::check) from: u32,
    /// Writers from here on are kept: of this launch, and of launches that it may overlap.
    pub(in crate::check) keeps: u32,
    /// Readers of several blocks are in a list.
    pub(in crate::check) lists: bool,
    /// All numbers of the block are in `own`.
    pub(in crate::check) exact: bool,
    pub(in crate::check) block: u32,
    pub(in crate::check) joined: Joined,
}

impl Reads<'_> {
    /// The reader after such a read, and whether several blocks have read; `is_ahead` tells if the
    /// previous reader is a number of lanes ahead.
    #[inline(always)]
    fn after(&self, cell: Cell, is_ahead: impl Fn(u32) -> bool) -> Option<(u32, bool)> {
        let (reader, several) = (cell.reader(), cell.has_several_readers());
        if reader < self.from {
            Some((self.id, false))
        } else if self.lists || (self.own.has(reader) && !several) {
            let replaces = !several && (reader == self.id || (self.own.has(reader) && self.own.is_settled(reader)));
            if replaces {
                return Some((self.id, false));
            }
            self.joined.holds_for(reader, is_ahead).then_some((self.joined.to, self.joined.is_mixed))
        } else if self.own.has(reader) {
            Some((self.id, true))
        } else {
            let several = self.exact || cell.has_several_readers() || self.own.is_foreign(reader, self.block);
            Some((self.id, several))
        }
    }
}

/// Returns the common part of cells that differ in their lanes only.
#[inline(always)]
pub(in crate::check) fn same_but_lanes(cells: &[u64; 32]) -> Option<Cell> {
    let first = Cell(cells[0]).without_lanes();
    let differing = cells.iter().fold(0, |all, &cell| all | (Cell(cell).without_lanes().0 ^ first.0));
    (differing == 0).then_some(first)
}

/// The cell after a plain read of a whole word whose writer, if any in this launch, is the block
/// itself.
#[inline(always)]
pub(in crate::check) fn after_read(
    cell: Cell,
    lane: u32,
    reads: &Reads<'_>,
    is_ahead: impl Fn(u32) -> bool,
    same_lane: impl Fn() -> bool,
) -> Option<Cell> {
    let (reader, several) = reads.after(cell, is_ahead)?;
    // The first lane of an instruction stays.
    let is_known = cell.reader() == reads.id && !several;
    let after = if cell.is_written_before(reads.keeps) {
        Cell::WRITTEN
    } else if cell.init() == WORD
        && !cell.is_strong()
        && (cell.writer() < reads.from || reads.own.has_before(cell.writer(), same_lane))
    {
        cell
    } else {
        return None;
    };
    Some(if is_known { cell } else { after.with_reader(reader, lane, several) })
}

/// [`after_read`] of one word.
#[inline(always)]
pub(in crate::check) fn read_word(place: &AtomicU64, lane: u32, reads: &Reads<'_>) -> bool {
    let cell = Cell(place.load(Ordering::Acquire));
    let is_ahead = |turn| cell.is_reader_ahead(lane, turn);
    let after = after_read(cell, lane, reads, is_ahead, || cell.writer_lane() == lane);
    after.is_some_and(|cell| {
        place.store(cell.0, Ordering::Release);
        true
    })
}

/// The cell after a plain write of a whole word that in this launch only the block itself has
/// touched, before this lane. The lanes of the cell's writer and reader may be the same one.
#[inline(always)]
pub(in crate::check) fn after_write(
    cell: Cell,
    (id, lane): (u32, u32),
    own: Own<'_>,
    from: u32,
    same_writer: impl Fn() -> bool,
    same_reader: impl Fn() -> bool,
) -> Option<Cell> {
    let (writer, reader) = (cell.writer(), cell.reader());
    let clear = cell.is_old(from)
        || ((writer < from || own.has_before(writer, same_writer))
            && (reader < from || (!cell.has_several_readers() && own.has_before(reader, same_reader))));
    clear.then(|| Cell::WRITTEN.with_writer(id, lane, false))
}

/// [`after_write`] of one word.
#[inline(always)]
pub(in crate::check) fn write_word(place: &AtomicU64, id: u32, lane: u32, own: Own<'_>, from: u32) -> bool {
    let cell = Cell(place.load(Ordering::Acquire));
    let (same_writer, same_reader) = (|| cell.writer_lane() == lane, || cell.reader_lane() == lane);
    let after = after_write(cell, (id, lane), own, from, same_writer, same_reader);
    after.is_some_and(|cell| {
        place.store(cell.0, Ordering::Release);
        true
    })
}

/// A strong write or an atomic of a whole word that in this launch only the block itself has
/// touched, strongly or before this lane; the first one behind a weak write, which other blocks may
/// still meet, takes a closer look.
#[inline(always)]
pub(in crate::check) fn strong_word(
    place: &AtomicU64,
    id: u32,
    lane: u32,
    own: Own<'_>,
    from: u32,
    wide: bool,
) -> bool {
    let cell = Cell(place.load(Ordering::Acquire));
    let (writer, reader) = (cell.writer(), cell.reader());
    let same_writer = || cell.writer_lane() == lane;
    let hides = wide && reader < from;
    let clear = cell.init() == WORD
        && (writer < from || (cell.is_strong() && own.has(writer)) || (!hides && own.has_before(writer, same_writer)))
        && (reader < from || (!cell.has_several_readers() && own.has_before(reader, || cell.reader_lane() == lane)));
    if clear {
        place.store(cell.with_writer(id, lane, wide).0, Ordering::Release);
    }
    clear
}
