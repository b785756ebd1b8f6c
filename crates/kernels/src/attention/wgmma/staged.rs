//! Keys and values of 8-bit floats for products of halves: they come to shared memory as they are,
//! by `cp.async`, some tiles ahead of the products, and are converted on their way to a stage.
//!
//! A thread converts what it copied itself, so nothing but its own wait lies between the two. A
//! conversion with plain loads had 9 KiB on their way in a multiprocessor: 0.46 TB/s on an H200.

use warpfold_lang::{Shared, Tile, Val, commit_copies, range, thread_idx, wait_for_copies, when};

use super::super::factor::Factor;
use super::super::work::Item;
use super::kernel::{Block, LOADING as THREADS};
use super::tile::UNIT;
use crate::elements::of_word;

/// Units that are loaded before the first of them is stored.
const TOGETHER: usize = 6;

/// The tiles on their way, keys and values of each side by side; slots belong to threads.
pub(super) struct Staging<'a, T> {
    block: &'a Block<'a, T>,
    slots: Shared<u32>,
}

impl<'a, T: Factor> Staging<'a, T> {
    /// Where the plan has room for it.
    pub(super) fn new(block: &'a Block<'a, T>) -> Option<Self> {
        let converts = block.launch.config.wide[1];
        block.staged.filter(|_| converts).map(|slots| Self { block, slots })
    }

    /// Loads the tiles from `begin` to `end`. `fill` fills the next stage with the keys (0) or
    /// values (1) of a tile, by [`Self::convert`]: in the order in which they are multiplied, the
    /// keys of the next tile before the values of each.
    pub(super) fn load(&self, item: &Item, [begin, end]: [Val<u32>; 2], fill: &dyn Fn(usize, Val<u32>)) {
        let ahead = self.block.config.tile.staged - 1;
        for i in 0..ahead {
            self.copy(item, begin + i, end);
        }
        range(begin, end, 1_u32, |number| {
            wait_for_copies(ahead - 1);
            fill(0, number);
            when(number.gt(begin), || fill(1, number - 1));
            // Into the slots of the tile before, of which this thread has now read everything.
            self.copy(item, number + ahead, end);
        });
        when(begin.lt(end), || fill(1, end - 1));
    }

    /// Begins to copy the keys and values of a tile; zeros beyond the sequence. A group even where
    /// there is no such tile.
    fn copy(&self, item: &Item, number: Val<u32>, end: Val<u32>) {
        let Block { launch, config, .. } = self.block;
        when(number.lt(end), || {
            // All pages are looked up before the first copy: behind it, each would be waited for.
            let begin = |unit| {
                let (row, column, exists) = self.place(unit);
                let key = number * config.tile.keys + row;
                let exists = exists & key.lt(item.num_keys);
                let at = |(which, dim): (usize, u32)| {
                    let start = launch.place_of_key(item, key.min(item.num_keys - 1), launch.key_strides(which));
                    (start + column.cast::<i64>(), exists & column.lt(dim))
                };
                (unit, [(0, launch.config.head_dim), (1, launch.config.value_dim)].map(at))
            };
            let copies: Vec<_> = (0..self.units()).map(begin).collect();
            for (unit, places) in copies {
                let memories = [launch.tensors.k, launch.tensors.v];
                for ((which, memory), (at, exists)) in memories.into_iter().enumerate().zip(places) {
                    let from = memory.at(at).reinterpret::<u32>();
                    self.slot(which, number, unit).copy_async_or_zero::<4>(from, exists);
                }
            }
        });
        commit_copies();
    }

    /// Converts this thread's part of a tile's keys (0) or values (1).
    pub(super) fn convert(&self, which: usize, number: Val<u32>, to: Tile<T>) {
        let units: Vec<u32> = (0..self.units()).collect();
        for units in units.chunks(TOGETHER) {
            let loaded: Vec<_> = units.iter().map(|unit| self.slot(which, number, *unit).get_vec::<4>()).collect();
            for (unit, bits) in units.iter().zip(loaded) {
                let (row, column, exists) = self.place(*unit);
                let values = bits.iter().flat_map(|word| of_word::<f32>(self.block.launch.config.kv_dtype, *word, 4));
                let words = T::words(&values.collect::<Vec<_>>());
                when(exists, || {
                    for (four, i) in words.chunks_exact(4).zip(0_u32..) {
                        to.at(row, column + 8 * i).reinterpret::<u32>().set_vec([four[0], four[1], four[2], four[3]]);
                    }
                });
            }
        }
    }

    /// Units that a thread has of a tile.
    fn units(&self) -> u32 {
        self.block.config.tile.staged_units(self.block.launch.config.head_dim)
    }

    /// Row, column and existence of a unit of this thread: panel after panel, so that the swizzle
    /// puts what neighbours write into different banks.
    fn place(&self, unit: u32) -> (Val<u32>, Val<u32>, Val<bool>) {
        let tile = self.block.stages[0].at(0);
        let (rows, panel) = (tile.rows(), tile.panel_columns());
        let (of_row, number) = (panel / UNIT, thread_idx().x + unit * THREADS);
        let of_panel = rows * of_row;
        let column = number / of_panel * panel + number % of_row * UNIT;
        (number / of_row % rows, column, number.lt(rows * tile.columns() / UNIT))
    }

    fn slot(&self, which: usize, number: Val<u32>, unit: u32) -> Shared<u32> {
        let tile = number % self.block.config.tile.staged * 2 + which as u32;
        self.slots.at(((tile * self.units() + unit) * THREADS + thread_idx().x) * (UNIT / 4))
    }
}
