//! Words of shared memory whose bytes have different histories: one cell per byte, until the next
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

/// Words with a record per byte.
#[derive(Debug, Default)]
pub(in crate::check) struct SplitWords {
    cells: Vec<[Cell; 4]>,
    /// The index of each word.
    words: Vec<usize>,
}

impl SplitWords {
    /// Joins all split words: returns their places, their indices, and the newest records of their
    /// bytes.
    pub(super) fn join(&mut self) -> impl Iterator<Item = (u32, usize, Cell)> {
        let newest = |cells: [Cell; 4]| {
            let of = |record: fn(&Cell) -> u32| cells.iter().map(record).max().unwrap_or_default();
            Cell { writer: of(|cell| cell.writer), reader: of(|cell| cell.reader), earlier: 0 }
        };
        let words = self.words.drain(..).zip(self.cells.drain(..));
        (0..).zip(words).map(move |(place, (word, cells))| (place, word, newest(cells)))
    }

    /// Splits a word whose bytes so far all have the records of `whole`; returns its place.
    pub(super) fn split(&mut self, word: usize, whole: Cell) -> u32 {
        let place = u32::try_from(self.cells.len()).expect("shared memory has fewer words");
        self.cells.push([whole; 4]);
        self.words.push(word);
        place
    }

    /// The last writers of a word's bytes.
    pub(super) fn writers(&self, place: u32) -> [u32; 4] {
        self.cells[place as usize].map(|cell| cell.writer)
    }

    pub(super) fn bytes(&mut self, place: u32) -> &mut [Cell; 4] {
        &mut self.cells[place as usize]
    }
}
