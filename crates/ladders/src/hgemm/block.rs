//! Code that the kernels share: the layout of rows, the tile of a block, and the store of sums from
//! registers.

use warpfold_lang::{Global, HalfOfPair, Multiplicand, Tile, Val, WarpgroupSums, linear_thread_idx, when_else};

/// `f16` or `bf16`.
pub trait Half: Multiplicand<Sum = f32> + HalfOfPair {}

impl<T: Multiplicand<Sum = f32> + HalfOfPair> Half for T {}

/// Elements of 16 bytes.
pub(super) const PIECE: u32 = 8;

/// From the start of a row to the start of the next, in elements, for rows of this length.
#[must_use]
pub const fn pitch(len: u32) -> u32 {
    len.next_multiple_of(PIECE)
}

/// [`pitch`] of a length in a register.
pub(super) fn pitch_of(len: Val<u32>) -> Val<u32> {
    (len + (PIECE - 1)) & !(PIECE - 1)
}

/// A part of a matrix in the memory of the device.
#[derive(Clone, Copy)]
pub(super) struct Part<T> {
    pub(super) matrix: Global<T>,
    /// The matrix has so many rows and columns,
    pub(super) rows: Val<u32>,
    pub(super) columns: Val<u32>,
    /// and the part starts here.
    pub(super) row: Val<u32>,
    pub(super) column: Val<u32>,
}

impl<T: Half> Part<T> {
    /// Copies as much as a tile holds, 16 bytes at a time, by all threads of the block; zeros stand
    /// for what is outside the matrix. Nobody sees it before the block synchronises.
    pub(super) fn copy_to(self, tile: Tile<T>, threads: u32) {
        let pieces_of_row = tile.columns() / PIECE;
        let place = |i: u32| {
            let piece = linear_thread_idx() + i * threads;
            (piece / pieces_of_row, (piece % pieces_of_row) * PIECE)
        };
        let num = tile.rows() * pieces_of_row / threads;
        let store = |i: u32, words: [Val<u32>; 4]| {
            let (row, column) = place(i);
            tile.at(row, column).reinterpret::<u32>().set_vec(words);
        };
        // All loads are on their way before the first is waited for.
        let whole = || {
            let pieces: Vec<_> = (0..num).map(|i| self.whole_piece(place(i))).collect();
            (0..num).zip(pieces).for_each(|(i, piece)| store(i, piece));
        };
        let cut = || (0..num).for_each(|i| store(i, self.cut_piece(place(i))));
        when_else((self.column + tile.columns()).le(self.columns), whole, cut);
    }

    fn at(self, row: Val<u32>, column: Val<u32>) -> Global<T> {
        let pitch = pitch_of(self.columns).cast::<u64>();
        self.matrix.at((self.row + row).cast::<u64>() * pitch).at(self.column + column)
    }

    /// Eight elements of a row that are in the matrix if the row is, in pairs.
    fn whole_piece(self, (row, column): (Val<u32>, Val<u32>)) -> [Val<u32>; 4] {
        self.at(row, column).reinterpret::<u32>().get_vec_or::<4>(0, (self.row + row).lt(self.rows))
    }

    /// Eight elements of a row, of which those outside the matrix are zero.
    fn cut_piece(self, (row, column): (Val<u32>, Val<u32>)) -> [Val<u32>; 4] {
        let place = self.at(row, column).reinterpret::<u16>();
        let is_row = (self.row + row).lt(self.rows);
        let element = |i: u32| {
            let there = is_row & (self.column + column + i).lt(self.columns);
            place.at(i).get_or(0, there).cast::<u32>()
        };
        std::array::from_fn(|pair| {
            let first = 2 * pair as u32;
            element(first) | (element(first + 1) << 16)
        })
    }

    /// Stores two neighbours of a row, rounded, where they are inside the matrix. `column` is even.
    pub(super) fn store_pair(self, row: Val<u32>, column: Val<u32>, [left, right]: [Val<f32>; 2]) {
        let place = self.at(row, column);
        let (row, column) = (self.row + row, self.column + column);
        let is_row = row.lt(self.rows);
        let pair = Val::<T::Pair>::from_f32(left, right);
        place.reinterpret::<T::Pair>().set_if(pair, is_row & (column + 1).lt(self.columns));
        place.set_if(left.cast::<T>(), is_row & (column + 1).eq(self.columns));
    }

    /// Stores the sums of a warpgroup.
    pub(super) fn store_sums(self, sums: &WarpgroupSums<T>) {
        for (row, column, pair) in sums.pairs() {
            self.store_pair(row, column, pair);
        }
    }
}
