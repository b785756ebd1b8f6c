//! Words of shared memory whose bytes have different histories: one cell a byte, until the next whole-block barrier.
//!
//! There is room for [`SplitWords::limit`] words, so that the shadow keeps within its 8 bytes a byte (beyond a constant
//! of 96 KiB); words that a kernel splits beyond that between two barriers go unchecked, and the
//! report says so.

/// The records of one word or byte: last writer, last reader, a reader before it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) writer: u32,
    pub(super) reader: u32,
    pub(super) earlier: u32,
}

/// Words whose bytes are recorded one by one.
#[derive(Debug)]
pub(super) struct SplitWords {
    cells: Vec<[Cell; 4]>,
    limit: usize,
    has_refused: bool,
}

impl SplitWords {
    pub(super) fn new(words: usize) -> Self {
        Self { cells: Vec::new(), limit: (words / 3).max(2048), has_refused: false }
    }

    /// All words are whole again.
    pub(super) fn clear(&mut self) {
        self.cells.clear();
    }

    /// Splits a word whose bytes so far all have the records of `whole`; `None` when there is no room.
    pub(super) fn split(&mut self, whole: Cell) -> Option<u32> {
        if self.cells.len() >= self.limit {
            self.has_refused = true;
            return None;
        }
        let place = u32::try_from(self.cells.len()).ok()?;
        self.cells.push([whole; 4]);
        Some(place)
    }

    /// Whether a word was refused since this was last asked.
    pub(super) const fn take_refused(&mut self) -> bool {
        std::mem::replace(&mut self.has_refused, false)
    }

    pub(super) fn bytes(&mut self, place: u32) -> &mut [Cell; 4] {
        &mut self.cells[place as usize]
    }
}
