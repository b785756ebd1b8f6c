//! How threads bring a factor's tiles to the ring: each copies the same pieces of every stage.

use warpfold_lang::{Global, Major, Multiplicand, Shared, Tiles, Val, linear_thread_idx, tiles, when};

use super::main_loop::Feed;
use super::pieces::Pieces;
use super::tile::{MmaTile, swizzle};
use crate::matmul::wgmma::Lying;

/// A factor's ring of tiles, and this thread's pieces of each.
pub(crate) struct Ring<T> {
    pieces: Pieces,
    pub(super) tiles: Tiles<T>,
    /// The first column of the pieces in the tile, which is the same for all.
    pub(crate) column: Val<u32>,
    /// Their rows, and where they go in the first tile.
    rows: Vec<(Val<u32>, Shared<T>)>,
    /// Whether the thread has a piece, where not all have.
    has_one: Option<Val<bool>>,
}

/// A factor whose lines and steps lie in memory at strides.
pub(crate) struct Strided<T> {
    ring: Ring<T>,
    /// From step to step.
    stride: Val<i64>,
    /// Where the pieces come from at the first step of all, and how many of their bytes are inside the factor's lines.
    from: Vec<(Global<T>, Val<u32>)>,
    /// Where the sums end, if a stage may reach beyond it.
    end: Option<Val<u32>>,
}

impl<T: Multiplicand> Ring<T> {
    /// Takes room for a ring of tiles of so many lines, and shares their pieces out to threads.
    pub(crate) fn new(pieces: Pieces, tile: MmaTile, lines: u32) -> Self {
        let (stages, depth, threads) = (tile.stages, tile.depth(T::BYTES), tile.threads());
        let (rows, columns) = if pieces.lying == Lying::Steps { (lines, depth) } else { (depth, lines) };
        let tiles = tiles(stages, rows, columns, swizzle(columns * T::BYTES));
        let width = pieces.bytes / T::BYTES;
        let of_row = columns / width;
        let (first, column) = (linear_thread_idx() / of_row, linear_thread_idx() % of_row * width);
        // Everything is a power of two.
        let together = threads / of_row;
        let place = |i: u32| {
            let row = first + i * together;
            (row, tiles.at(0).at(row, column))
        };
        let has_one = (rows < together).then(|| first.lt(rows));
        Self { pieces, tiles, column, rows: (0..rows.div_ceil(together)).map(place).collect(), has_one }
    }

    /// What lies along the tiles' columns.
    pub(super) const fn major(&self) -> Major {
        self.pieces.lying.major()
    }

    /// The rows of the pieces in the tile.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Val<u32>> {
        self.rows.iter().map(|(row, _)| *row)
    }

    /// Steps of the sums that a stage has.
    pub(crate) fn depth(&self) -> u32 {
        let tile = self.tiles.at(0);
        if matches!(self.pieces.lying, Lying::Steps) { tile.columns() } else { tile.rows() }
    }

    /// Bytes of a piece.
    pub(crate) const fn piece_bytes(&self) -> u32 {
        self.pieces.bytes
    }

    /// Elements of a piece.
    fn width(&self) -> u32 {
        self.pieces.bytes / T::BYTES
    }

    /// Begins to copy the pieces, each from its place and so many bytes of it, to a stage; zeros fill it up.
    pub(crate) fn copy(&self, stage: Val<u32>, from: impl Iterator<Item = (Global<T>, Val<u32>)>) {
        let start = stage * self.tiles.at(0).bytes();
        let copy = || {
            for ((_, to), (from, bytes)) in self.rows.iter().zip(from) {
                let (to, from) = (to.reinterpret::<u8>().at(start).reinterpret::<u32>(), from.reinterpret::<u32>());
                match self.pieces.bytes {
                    16 => to.copy_async_first::<4>(from, bytes),
                    8 => to.copy_async_first::<2>(from, bytes),
                    _ => to.copy_async_first::<1>(from, bytes),
                }
            }
        };
        match self.has_one {
            None => copy(),
            Some(has_one) => when(has_one, copy),
        }
    }
}

impl<T: Multiplicand> Strided<T> {
    /// A factor whose first element lies there, from `line` on, of so many lines in all.
    pub(crate) fn new(
        ring: Ring<T>,
        first: Global<T>,
        [of_lines, of_steps]: [Val<i64>; 2],
        [line, lines]: [Val<u32>; 2],
        end: Option<Val<u32>>,
    ) -> Self {
        let (width, whole) = (ring.width(), ring.pieces.bytes);
        let from = |row: Val<u32>| match ring.pieces.lying {
            Lying::Steps => {
                let line = line + row;
                let from = first.at(line.cast::<i64>() * of_lines).at(ring.column);
                (from, line.lt(lines).select(whole, 0_u32))
            }
            Lying::Lines => {
                let line = line + ring.column;
                let from = first.at(row.cast::<i64>() * of_steps).at(line);
                (from, left(line, lines, width) * T::BYTES)
            }
        };
        let from = ring.rows().map(from).collect();
        Self { ring, stride: of_steps, from, end }
    }
}

impl<T: Multiplicand> Feed<T> for Strided<T> {
    fn ring(&self) -> &Ring<T> {
        &self.ring
    }

    fn copy(&self, stage: Val<u32>, step: Val<u32>) {
        let ring = &self.ring;
        let limit = |row: Val<u32>, bytes: Val<u32>| match (self.end, ring.pieces.lying) {
            (None, _) => bytes,
            (Some(end), Lying::Steps) => bytes.min(left(step + ring.column, end, ring.width()) * T::BYTES),
            (Some(end), Lying::Lines) => (step + row).lt(end).select(bytes, 0_u32),
        };
        let offset = match ring.pieces.lying {
            Lying::Steps => step.cast::<i64>(),
            Lying::Lines => step.cast::<i64>() * self.stride,
        };
        let pieces = ring.rows().zip(&self.from);
        ring.copy(stage, pieces.map(|(row, (from, bytes))| (from.at(offset), limit(row, *bytes))));
    }
}

/// How many of so many numbers from `first` on are below `end`.
fn left(first: Val<u32>, end: Val<u32>, most: u32) -> Val<u32> {
    (end - first.min(end)).min(most)
}
