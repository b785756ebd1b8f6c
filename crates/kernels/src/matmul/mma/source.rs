//! How threads bring a factor's tiles to the ring: each copies the same pieces of every stage.

use warpfold_lang::{Global, Multiplicand, Shared, Tiles, Val, linear_thread_idx, tiles, when};

use super::pieces::Pieces;
use super::tile::swizzle;
use crate::matmul::wgmma::Lying;

/// A factor's ring of tiles, and this thread's pieces of each.
pub(super) struct Factor<T> {
    pub(super) pieces: Pieces,
    pub(super) tiles: Tiles<T>,
    /// The first column of the pieces in the tile, which is the same for all.
    column: Val<u32>,
    /// Their rows, and where they go in the first tile.
    rows: Vec<(Val<u32>, Shared<T>)>,
    /// Whether the thread has a piece, where not all have.
    has_one: Option<Val<bool>>,
}

/// A factor whose lines and steps lie in memory at strides.
pub(super) struct Strided<T> {
    factor: Factor<T>,
    /// From step to step.
    stride: Val<i64>,
    /// Where the pieces come from at the first step of all, and how many of their bytes are inside the factor's lines.
    from: Vec<(Global<T>, Val<u32>)>,
    /// Where the sums end, if a stage may reach beyond it.
    end: Option<Val<u32>>,
}

impl<T: Multiplicand> Factor<T> {
    /// Takes room for a ring of tiles of so many lines, `depth` steps each, and shares their pieces out to threads.
    pub(super) fn new(pieces: Pieces, stages: u32, lines: u32, depth: u32, threads: u32) -> Self {
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

    /// Elements of a piece.
    fn width(&self) -> u32 {
        self.pieces.bytes / T::BYTES
    }

    /// Begins to copy the pieces, each from its place and so many bytes of it, to a stage; zeros fill it up.
    fn copy(&self, stage: Val<u32>, from: impl Iterator<Item = (Global<T>, Val<u32>)>) {
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
    /// A factor whose first element lies there; from `line` on, of so many lines in all.
    pub(super) fn new(
        factor: Factor<T>,
        first: Global<T>,
        [of_lines, of_steps]: [Val<i64>; 2],
        [line, lines]: [Val<u32>; 2],
        end: Option<Val<u32>>,
    ) -> Self {
        let (width, whole) = (factor.width(), factor.pieces.bytes);
        let from = |row: Val<u32>| match factor.pieces.lying {
            Lying::Steps => {
                let line = line + row;
                let from = first.at(line.cast::<i64>() * of_lines).at(factor.column);
                (from, line.lt(lines).select(whole, 0_u32))
            }
            Lying::Lines => {
                let line = line + factor.column;
                let from = first.at(row.cast::<i64>() * of_steps).at(line);
                (from, left(line, lines, width) * T::BYTES)
            }
        };
        let from = factor.rows.iter().map(|(row, _)| from(*row)).collect();
        Self { stride: of_steps, from, end, factor }
    }

    /// Begins to copy the tile that begins at a step.
    pub(super) fn copy(&self, stage: Val<u32>, step: Val<u32>) {
        let factor = &self.factor;
        let limit = |row: Val<u32>, bytes: Val<u32>| match (self.end, factor.pieces.lying) {
            (None, _) => bytes,
            (Some(end), Lying::Steps) => bytes.min(left(step + factor.column, end, factor.width()) * T::BYTES),
            (Some(end), Lying::Lines) => (step + row).lt(end).select(bytes, 0_u32),
        };
        let offset = match factor.pieces.lying {
            Lying::Steps => step.cast::<i64>(),
            Lying::Lines => step.cast::<i64>() * self.stride,
        };
        let pieces = factor.rows.iter().zip(&self.from);
        factor.copy(stage, pieces.map(|((row, _), (from, bytes))| (from.at(offset), limit(*row, *bytes))));
    }
}

/// How many of so many numbers from `first` on are below `end`.
fn left(first: Val<u32>, end: Val<u32>, most: u32) -> Val<u32> {
    (end - first.min(end)).min(most)
}
