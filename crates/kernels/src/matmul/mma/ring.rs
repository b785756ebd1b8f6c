//! The ring of stages of a factor: each thread copies the same pieces of every stage.

use warpfold_lang::{Global, Major, Multiplicand, Shared, Tiles, Val, linear_thread_idx, tiles, when};

use super::main_loop::StageLoader;
use super::pieces::Pieces;
use super::tile::{MmaTile, swizzle};
use crate::matmul::operand_major::OperandMajor;

/// A factor's ring of tiles, and this thread's pieces of each: in one column, in rows as far apart
/// as the block's threads take together.
pub(crate) struct Ring<T> {
    pieces: Pieces,
    pub(super) tiles: Tiles<T>,
    /// The first column of the pieces in the tile.
    pub(crate) column: Val<u32>,
    /// The row of the first one.
    row: Val<u32>,
    /// From row to row.
    together: u32,
    /// Where pieces go in the first tile.
    to: Vec<Shared<u8>>,
    /// Whether the thread has a piece, where not all have.
    has_one: Option<Val<bool>>,
}

/// A factor whose lines and steps lie in memory at strides.
pub(crate) struct Strided<T> {
    ring: Ring<T>,
    /// Where the first piece comes from, at the first step of all.
    first: Global<T>,
    /// From step to step, and from piece to piece.
    strides: [Val<i64>; 2],
    /// The piece's first line, and how many there are in all.
    lines: [Val<u32>; 2],
    /// Where the sums end, if a stage may reach beyond it.
    end: Option<Val<u32>>,
}

impl<T: Multiplicand> Ring<T> {
    /// Takes room for a ring of tiles of this many lines, and shares their pieces out to threads.
    pub(crate) fn new(pieces: Pieces, tile: MmaTile, lines: u32) -> Self {
        let (stages, depth, threads) = (tile.stages, tile.depth(T::BYTES), tile.threads());
        let (rows, columns) = if pieces.major == OperandMajor::K { (lines, depth) } else { (depth, lines) };
        let swizzle = swizzle(columns * T::BYTES);
        let tiles = tiles(stages, rows, columns, swizzle);
        let width = pieces.bytes / T::BYTES;
        let of_row = columns / width;
        let (row, column) = (linear_thread_idx() / of_row, linear_thread_idx() % of_row * width);
        // Everything is a power of two. The swizzle repeats after 8 rows: from there on addresses
        // differ by a constant.
        let together = threads / of_row;
        let period = (8 / together).max(1);
        let first = |i: u32| tiles.at(0).at(row + i * together, column).reinterpret::<u8>();
        let firsts: Vec<_> = (0..period).map(first).collect();
        let to = |i: u32| firsts[(i % period) as usize].at((i - i % period) * together * swizzle.bytes());
        let has_one = (rows < together).then(|| row.lt(rows));
        let to = (0..rows.div_ceil(together)).map(to).collect();
        Self { pieces, tiles, column, row, together, to, has_one }
    }

    /// What lies along the tiles' columns.
    pub(super) const fn major(&self) -> Major {
        self.pieces.major.for_lang()
    }

    /// The rows of the pieces in the tile.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Val<u32>> {
        (0..).zip(&self.to).map(|(i, _)| self.row + i * self.together)
    }

    /// Steps of the sums that a stage has.
    pub(crate) fn depth(&self) -> u32 {
        let tile = self.tiles.at(0);
        if matches!(self.pieces.major, OperandMajor::K) { tile.columns() } else { tile.rows() }
    }

    /// Bytes of a piece.
    pub(crate) const fn piece_bytes(&self) -> u32 {
        self.pieces.bytes
    }

    /// Elements of a piece.
    fn width(&self) -> u32 {
        self.pieces.bytes / T::BYTES
    }

    /// Begins to copy the pieces, each from its place and this many bytes of it, to a stage; zeros
    /// fill it up.
    pub(crate) fn copy(&self, stage: Val<u32>, from: impl Iterator<Item = (Global<T>, Val<u32>)>) {
        let start = stage * self.tiles.at(0).bytes();
        let copy = || {
            for (to, (from, bytes)) in self.to.iter().zip(from) {
                let (to, from) = (to.at(start).reinterpret::<u32>(), from.reinterpret::<u32>());
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
    /// A factor whose first element lies there, from `line` on, of this many lines in all.
    pub(crate) fn new(
        ring: Ring<T>,
        first: Global<T>,
        [of_lines, of_steps]: [Val<i64>; 2],
        [line, lines]: [Val<u32>; 2],
        end: Option<Val<u32>>,
    ) -> Self {
        // Along the columns, elements lie side by side.
        let (line, of_rows) = match ring.pieces.major {
            OperandMajor::K => (line + ring.row, of_lines),
            OperandMajor::Mn => (line + ring.column, of_steps),
        };
        let [row, column] = match ring.pieces.major {
            OperandMajor::K => [line, ring.column],
            OperandMajor::Mn => [ring.row, line],
        };
        let first = first.at(row.cast::<i64>() * of_rows).at(column);
        let of_pieces = of_rows * i64::from(ring.together);
        Self { ring, first, strides: [of_steps, of_pieces], lines: [line, lines], end }
    }
}

impl<T: Multiplicand> StageLoader<T> for Strided<T> {
    fn ring(&self) -> &Ring<T> {
        &self.ring
    }

    fn copy(&self, stage: Val<u32>, step: Val<u32>) {
        let Self { ring, first, strides: [of_steps, of_pieces], lines: [line, lines], end } = self;
        let (width, whole) = (ring.width(), ring.pieces.bytes);
        let in_row = |first: Val<u32>, end: Val<u32>| left(first, end, width) * T::BYTES;
        let mut from = match ring.pieces.major {
            OperandMajor::K => first.at(step),
            OperandMajor::Mn => first.at(step.cast::<i64>() * *of_steps),
        };
        // The part of a piece that is inside is the same for all; what differs is whether the row
        // is there.
        let (bytes, rows): (Val<u32>, _) = match ring.pieces.major {
            OperandMajor::K => {
                let bytes = end.map_or(Val::constant(whole), |end| in_row(step + ring.column, end));
                (bytes, Some((*line, *lines)))
            }
            OperandMajor::Mn => (in_row(*line, *lines), end.map(|end| (step + ring.row, end))),
        };
        let piece = |i: u32| {
            if i > 0 {
                from = from.at(*of_pieces);
            }
            let bytes = rows.map_or(bytes, |(row, end)| (row + i * ring.together).lt(end).select(bytes, 0_u32));
            (from, bytes)
        };
        ring.copy(stage, (0..).map(piece));
    }
}

/// How many of this many numbers from `first` on are below `end`.
fn left(first: Val<u32>, end: Val<u32>, most: u32) -> Val<u32> {
    (end - first.min(end)).min(most)
}
