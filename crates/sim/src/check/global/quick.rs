//! The fast path of global accesses: by a block to words that no other has touched in a way that
//! matters.
//!
//! Each decides by a cell alone, and gives way to [`between`](crate::check::global::judge) where
//! that does not do.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use crate::check::global::judge::WORD;
use crate::check::global::numbers::Own;
use crate::check::global::readers::Joined;
use crate::check::global::shadow::Cell;

/// What quick reads of whole words need.
pub(in crate::check) struct Reads {
    pub(in crate::check) id: u32,
    pub(in crate::check) own: Own,
    pub(in crate::check) from: u32,
    /// Writers from here on are kept: of launches that this one may overlap, and its own.
    pub(in crate::check) keeps: u32,
    /// Several readers of a word are in a list.
    pub(in crate::check) lists: bool,
    /// All numbers of the block are in `own`.
    pub(in crate::check) exact: bool,
    pub(in crate::check) joined: Joined,
}

impl Reads {
    /// The reader after such a read, and whether there are several.
    #[inline(always)]
    fn after(&self, cell: Cell) -> Option<(u32, bool)> {
        let reader = cell.reader();
        if reader < self.from {
            Some((self.id, false))
        } else if self.own.has(reader) && !(self.lists && cell.has_several_readers()) {
            Some((self.id, cell.has_several_readers()))
        } else if self.lists {
            (reader == self.joined.from).then_some((self.joined.to, self.joined.to != self.id))
        } else {
            self.exact.then_some((self.id, true))
        }
    }
}

/// What cells that differ in nothing but lanes have in common.
#[inline(always)]
pub(in crate::check) fn same_but_lanes(cells: &[AtomicU64; 32]) -> Option<Cell> {
    let first = Cell(cells[0].load(Ordering::Relaxed)).without_lanes();
    let differing =
        cells.iter().fold(0, |all, cell| all | (Cell(cell.load(Ordering::Relaxed)).without_lanes().0 ^ first.0));
    fence(Ordering::Acquire);
    (differing == 0).then_some(first)
}

/// The cell after a plain read of a whole word whose writer, if any in this launch, is the block
/// itself.
#[inline(always)]
pub(in crate::check) fn after_read(cell: Cell, lane: u32, reads: &Reads) -> Option<Cell> {
    let (reader, several) = reads.after(cell)?;
    let after = if cell.is_written_before(reads.keeps) {
        Cell::WRITTEN
    } else if cell.init() == WORD && (cell.writer() < reads.from || reads.own.has(cell.writer())) && !cell.is_strong() {
        cell
    } else {
        return None;
    };
    Some(after.with_reader(reader, lane, several))
}

/// [`after_read`] of one word.
#[inline(always)]
pub(in crate::check) fn read_word(place: &AtomicU64, lane: u32, reads: &Reads) -> bool {
    let after = after_read(Cell(place.load(Ordering::Acquire)), lane, reads);
    after.is_some_and(|cell| {
        place.store(cell.0, Ordering::Release);
        true
    })
}

/// The cell after a plain write of a whole word that only the block itself has touched in this
/// launch.
#[inline(always)]
pub(in crate::check) fn after_write(cell: Cell, id: u32, lane: u32, own: Own, from: u32) -> Option<Cell> {
    let (writer, reader) = (cell.writer(), cell.reader());
    let clear = cell.is_old(from)
        || ((writer < from || own.has(writer)) && (reader < from || (own.has(reader) && !cell.has_several_readers())));
    clear.then(|| Cell::WRITTEN.with_writer(id, lane, false))
}

/// [`after_write`] of one word.
#[inline(always)]
pub(in crate::check) fn write_word(place: &AtomicU64, id: u32, lane: u32, own: Own, from: u32) -> bool {
    let after = after_write(Cell(place.load(Ordering::Acquire)), id, lane, own, from);
    after.is_some_and(|cell| {
        place.store(cell.0, Ordering::Release);
        true
    })
}

/// A strong write or an atomic of a whole word that only the block itself has touched in this
/// launch.
#[inline(always)]
pub(in crate::check) fn strong_word(place: &AtomicU64, id: u32, lane: u32, own: Own, from: u32, wide: bool) -> bool {
    let cell = Cell(place.load(Ordering::Acquire));
    let (writer, reader) = (cell.writer(), cell.reader());
    let clear = cell.init() == WORD
        && (writer < from || own.has(writer))
        && (reader < from || (own.has(reader) && !cell.has_several_readers()));
    if clear {
        place.store(cell.with_writer(id, lane, wide).0, Ordering::Release);
    }
    clear
}
