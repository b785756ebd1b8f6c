//! Copies to shared memory: by `cp.async` where rows are whole pieces of 16 bytes, else by threads
//! that convert and wait.

use warpfold_lang::{Global, Shared, Tiles, Val, thread_idx};

use super::super::config::Launch;
use super::super::copy_rows::{From, copy_rows};
use super::super::factor::Factor;
use super::super::work::Item;
use super::tile::THREADS;

/// Elements of a piece.
const PIECE: u32 = 8;

/// Units that a thread has on their way at once, where threads copy.
const UNROLL: u32 = 4;

/// The pieces of tiles that a thread copies: a column of each panel, in rows as far apart as the
/// threads of the block take together. So each eight lanes write 128 bytes of one panel, whose
/// swizzle puts them into different banks.
pub(super) struct Pieces<T> {
    tiles: Tiles<T>,
    /// Elements of a row; zeros behind them.
    dim: u32,
    row: Val<u32>,
    /// Of a panel.
    column: Val<u32>,
    /// Where the first one goes in the first tile.
    first: Shared<u8>,
}

impl<T: Factor> Pieces<T> {
    pub(super) fn new(tiles: Tiles<T>, dim: u32) -> Self {
        let tile = tiles.at(0);
        let of_row = tile.panel_columns() / PIECE;
        let (row, column) = (thread_idx().x / of_row, thread_idx().x % of_row * PIECE);
        Self { tiles, dim, row, column, first: tile.at(row, column).reinterpret() }
    }

    /// Rows that all threads have a piece of at once: the swizzle repeats after them.
    fn together(&self) -> u32 {
        THREADS * PIECE / self.tiles.at(0).panel_columns()
    }

    /// How many rows this thread has.
    fn num_rows(&self) -> u32 {
        self.tiles.at(0).rows() / self.together()
    }

    /// Begins to copy rows to a stage: where each begins, in elements, and whether it is there.
    fn copy(&self, stage: Val<u32>, memory: Global<u8>, rows: impl Iterator<Item = (Val<i64>, Val<bool>)>) {
        let tile = self.tiles.at(0);
        let (width, row_bytes) = (tile.panel_columns(), tile.swizzle().bytes());
        let to = self.first.at(stage * tile.bytes());
        let memory = memory.reinterpret::<T>();
        for (i, (start, exists)) in (0..).zip(rows) {
            let from = memory.at(start).at(self.column);
            for panel in 0..tile.columns() / width {
                let left = self.dim - panel * width;
                let is_inside = if left < width { exists & self.column.lt(left) } else { exists };
                let place = panel * tile.rows() * row_bytes + i * self.together() * row_bytes;
                let (to, from) = (to.at(place).reinterpret::<u32>(), from.at(panel * width).reinterpret::<u32>());
                to.copy_async_or_zero::<4>(from, is_inside);
            }
        }
    }
}

impl Launch<'_> {
    /// Whether keys and values come by `cp.async`.
    fn copies_keys_in_background(&self) -> bool {
        self.config.wide[1] && self.config.kv_dtype == self.config.dtype
    }

    /// Whether anything does.
    pub(super) fn copies_in_background(&self) -> bool {
        self.config.wide[0] || self.copies_keys_in_background()
    }

    /// Begins to copy the rows of an item.
    pub(super) fn copy_queries<T: Factor>(&self, item: &Item, to: &Pieces<T>) {
        let Self { config, args } = *self;
        // Rows beyond the last are the last.
        let place = |row: Val<u32>| (self.place_of_query(item, &item.row(&args, row)), Val::constant(true));
        if config.wide[0] {
            let rows = (0..to.num_rows()).map(|i| place(to.row + i * to.together()));
            to.copy(Val::constant(0), args.q.memory, rows);
        } else {
            let from = From { memory: args.q.memory, dtype: config.dtype, wide: false, stride: args.q.element.get() };
            copy_rows(to.tiles.at(0), to.dim, (THREADS, UNROLL), from, &place);
        }
    }

    /// Begins to copy keys (0) or values (1) from `first` on to a stage; zeros beyond the sequence,
    /// whatever lies there.
    pub(super) fn copy_keys<T: Factor>(
        &self,
        (item, which): (&Item, usize),
        first: Val<u32>,
        (to, stage): (&Pieces<T>, Val<u32>),
    ) {
        let Self { config, args } = *self;
        let tensor = [args.k, args.v][which];
        let (strides, memory) = (tensor.strides(), tensor.memory);
        let place = |row: Val<u32>| {
            let key = first + row;
            (self.place_of_key(item, key.min(item.num_keys - 1), strides), key.lt(item.num_keys))
        };
        if !self.copies_keys_in_background() {
            let from = From { memory, dtype: config.kv_dtype, wide: config.wide[1], stride: strides[3] };
            copy_rows(to.tiles.at(stage), to.dim, (THREADS, UNROLL), from, &place);
            return;
        }
        let rows = (0..to.num_rows()).map(|i| to.row + i * to.together());
        if config.paged {
            to.copy(stage, memory, rows.map(place));
            return;
        }
        // Where there is no row, nothing is read: it need not be looked for in the tensor.
        let start = self.place_of_key(item, first + to.row, strides);
        let pitch = strides[2] * i64::from(to.together());
        let place = |(i, row): (i64, Val<u32>)| (start + pitch * i, (first + row).lt(item.num_keys));
        to.copy(stage, memory, (0..).zip(rows).map(place));
    }
}
