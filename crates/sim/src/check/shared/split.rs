//! Words of shared memory whose bytes have different histories: one cell a byte, until the next
//! whole-block barrier.
//!
//! A word is split once until then, so these cells take at most 12 bytes a byte of shared memory,
//! and only where a kernel uses parts of words.

/// The records of one word or byte: last writer, last reader, a reader before it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::check) struct Cell {
    pub(in crate::check) writer: u32,
    pub(in crate::check) reader: u32,
    pub(in crate::check) earlier: u32,
}

/// Words whose bytes are recorded one by one.
#[derive(Debug, Default)]
pub(in crate::check) struct SplitWords {
    cells: Vec<[Cell; 4]>,
}

impl SplitWords {
    /// All words are whole again.
    pub(in crate::check) fn clear(&mut self) {
        self.cells.clear();
    }

    /// Splits a word whose bytes so far all have the records of `whole`; gives its place.
    pub(in crate::check) fn split(&mut self, whole: Cell) -> u32 {
        let place = u32::try_from(self.cells.len()).expect("shared memory has fewer words");
        self.cells.push([whole; 4]);
        place
    }

    /// The last writers of the bytes of a word.
    pub(in crate::check) fn writers(&self, place: u32) -> [u32; 4] {
        self.cells[place as usize].map(|cell| cell.writer)
    }

    pub(in crate::check) fn bytes(&mut self, place: u32) -> &mut [Cell; 4] {
        &mut self.cells[place as usize]
    }
}
