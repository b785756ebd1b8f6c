//! The warps that load: queries, then tiles of keys and values, as soon as there is room.

use warpfold_lang::{
    Cursor, Global, HalfOfPair, Multiplicand, Pipeline, Tile, Val, Var, fence_async, range, thread_idx, var, warp_id,
    when,
};

use super::super::work::{Item, KeyLens, Row, Size, bytes_at};
use super::kernel::{Block, Cursors, LOADERS, WgmmaConfig};
use crate::Dtype;
use crate::elements::{load, of_word};

/// Threads that load.
const THREADS: u32 = 32 * LOADERS;

/// Units that a thread has on their way at once.
const UNROLL: u32 = 6;

/// What the warps that load do.
pub(super) struct Loader<'a, T> {
    block: &'a Block<'a, T>,
    at: Cursors,
}

impl<'a, T: Multiplicand + HalfOfPair> Loader<'a, T> {
    pub(super) fn new(block: &'a Block<'a, T>, at: Cursors) -> Self {
        Self { block, at }
    }

    /// Loads what an item needs.
    pub(super) fn load(&self, item: &Item) {
        let WgmmaConfig { maps_queries, maps_keys, tile, .. } = self.block.config;
        let [q, kv] = self.at;
        // TMA is one warp's work; where threads copy anything, all of them come along.
        let by_tma = *maps_queries && maps_keys.is_some();
        let all = || {
            self.block.rings[0].acquire(q);
            if *maps_queries {
                self.queries_by_tma(item)
            } else {
                self.queries_by_threads(item)
            }
            q.advance();
            let [begin, end] = self.block.tiles_of(item);
            let pages = self.pages(item, begin);
            let load = |which: usize, number: Val<u32>, page: Option<Val<u32>>| {
                self.block.rings[1].acquire(kv);
                match maps_keys {
                    Some(keys) => self.keys_by_tma(item, which, number * tile.keys, (*keys, page)),
                    None => self.keys_by_threads(item, which, number * tile.keys),
                }
                kv.advance();
            };
            // As they are multiplied: the values of a tile after the keys of the next one.
            range(begin, end, 1_u32, |number| {
                let before = pages.as_ref().map(|pages| pages.before.get());
                let page = pages.as_ref().map(|pages| pages.next.get());
                pages.iter().for_each(|pages| {
                    pages.before.set(pages.next.get());
                    // The next tile's pages are on their way while this one's boxes are.
                    pages.next.set((pages.read)(number + 1));
                });
                load(0, number, page);
                when(number.gt(begin), || load(1, number - 1, before));
            });
            when(begin.lt(end), || load(1, end - 1, pages.as_ref().map(|pages| pages.before.get())));
        };
        if by_tma { when(warp_id().eq(0), all) } else { all() }
    }

    /// Rows of a tile are `(query, head of the group)`: a box of heads and queries.
    fn queries_by_tma(&self, item: &Item) {
        let Block { queries, rings, maps, launch, .. } = self.block;
        let barrier = rings[0].full(self.at[0]);
        let group = launch.size(Size::Group);
        when(thread_idx().x.eq(0), || {
            barrier.arrive_expect(queries.len() * queries.at(0).bytes());
            for i in 0..queries.len() {
                let query = item.first_query + (item.first_row + 64 * i) / group;
                let sequence = if launch.config.work.packed { Val::constant(0) } else { item.sequence };
                for (column, panel) in queries.at(i).panels() {
                    let at = [Val::constant(column), item.kv_head * group, query, sequence];
                    maps[0].load(panel, at, barrier);
                }
            }
        });
    }

    fn queries_by_threads(&self, item: &Item) {
        let Block { queries, rings, launch, .. } = self.block;
        let (config, strides) = (launch.config, launch.strides);
        for i in 0..queries.len() {
            let place = |row: Val<u32>| {
                let row: Row = item.row(launch.sizes, row + 64 * i);
                (launch.place_of_query(item, &row), Val::constant(true))
            };
            let from =
                From { memory: launch.tensors.q, dtype: config.dtype, wide: config.wide[0], stride: strides.at(3) };
            copy_rows(queries.at(i), config.head_dim, from, &place);
        }
        hand_over(rings[0], self.at[0]);
    }

    /// A tile of keys (0) or values (1), box by box; of pages each thread has a box.
    fn keys_by_tma(&self, item: &Item, which: usize, first: Val<u32>, (box_keys, page): (u32, Option<Val<u32>>)) {
        let Block { config, rings, maps, launch, .. } = self.block;
        let barrier = rings[1].full(self.at[1]);
        let tile = self.tile(which);
        let (keys, map) = (config.tile.keys, maps[1 + which]);
        let thread = thread_idx().x;
        when(thread.eq(0), || barrier.arrive_expect(tile.bytes()));
        let Some(page) = page else {
            let is_packed = launch.config.work.key_lens == KeyLens::Packed;
            let position = if is_packed { item.first_key + first } else { first };
            let sequence = if is_packed { Val::constant(0) } else { item.sequence };
            when(thread.eq(0), || {
                for (column, panel) in tile.panels() {
                    map.load(panel, [Val::constant(column), position, item.kv_head, sequence], barrier);
                }
            });
            return;
        };
        when(thread.lt(keys / box_keys), || {
            let row = thread * box_keys;
            let position = first + row;
            let page_size = launch.size(Size::Page);
            for (column, panel) in tile.panels() {
                let to = panel.at(row * tile.panel_columns());
                map.load(to, [Val::constant(column), position % page_size, item.kv_head, page], barrier);
            }
        });
    }

    /// The pages of this thread's boxes, beginning with those of a tile.
    fn pages<'b>(&'b self, item: &'b Item, begin: Val<u32>) -> Option<Pages<'b>> {
        let Block { config, launch, .. } = self.block;
        let box_keys = config.maps_keys.filter(|_| launch.config.paged)?;
        let tile = config.tile.keys;
        let read = move |number: Val<u32>| {
            // A page beyond the sequence is no page: what comes in its place is not looked at.
            let row = (thread_idx().x * box_keys).min(tile - box_keys);
            let position = (number * tile + row).min(item.num_keys.max(1) - 1);
            launch.page(item, position / launch.size(Size::Page)).cast::<u32>()
        };
        let (before, next) = (var(0_u32), var(read(begin)));
        Some(Pages { read: Box::new(read), before, next })
    }

    fn keys_by_threads(&self, item: &Item, which: usize, first: Val<u32>) {
        let launch = &self.block.launch;
        let config = launch.config;
        let strides = launch.key_strides(which);
        let (memory, dim) =
            if which == 0 { (launch.tensors.k, config.head_dim) } else { (launch.tensors.v, config.value_dim) };
        let place = |row: Val<u32>| {
            let key = first + row;
            (launch.place_of_key(item, key.min(item.num_keys - 1), strides), key.lt(item.num_keys))
        };
        let from = From { memory, dtype: config.kv_dtype, wide: config.wide[1], stride: strides[3] };
        copy_rows(self.tile(which), dim, from, &place);
        hand_over(self.block.rings[1], self.at[1]);
    }

    fn tile(&self, which: usize) -> Tile<T> {
        self.block.stages[which].at(self.at[1].stage())
    }
}

/// The pages of this thread's boxes.
struct Pages<'a> {
    /// Of a tile.
    read: Box<dyn Fn(Val<u32>) -> Val<u32> + 'a>,
    /// Of the tile before, and of the next one.
    before: Var<u32>,
    next: Var<u32>,
}

/// Lets those who multiply have what this thread wrote.
fn hand_over(ring: Pipeline, at: Cursor) {
    fence_async();
    ring.full(at).arrive();
}

/// Where rows come from.
#[derive(Clone, Copy)]
struct From {
    memory: Global<u8>,
    dtype: Dtype,
    /// Whether a unit is loaded at once.
    wide: bool,
    /// Between elements of a row.
    stride: Val<i64>,
}

/// Elements that a thread brings at a time: 16 bytes of memory, or eight elements one by one.
const fn unit(from: &From) -> u32 {
    if from.wide { 16 / from.dtype.bytes() as u32 } else { 8 }
}

/// Copies rows of `dim` elements into a tile, converted to its type; zeros behind each row, and
/// where there is none. `place` says where a row begins, and whether there is one.
fn copy_rows<T: Multiplicand + HalfOfPair>(
    to: Tile<T>,
    dim: u32,
    from: From,
    place: &dyn Fn(Val<u32>) -> (Val<i64>, Val<bool>),
) {
    let unit = unit(&from);
    let of_row = to.columns() / unit;
    let total = to.rows() * of_row;
    range(thread_idx().x, total, THREADS * UNROLL, |first| {
        let loaded: Vec<_> = (0..UNROLL)
            .map(|i| {
                let number = first + i * THREADS;
                let (row, column) = (number / of_row, number % of_row * unit);
                let (start, exists) = place(row.min(to.rows() - 1));
                (row, column, number.lt(total), bits_of::<T>(from, start, column, dim, exists & number.lt(total)))
            })
            .collect();
        for (row, column, is_there, bits) in loaded {
            let words = if from.wide && from.dtype.bytes() == 1 {
                let elements = bits.iter().flat_map(|word| of_word::<f32>(from.dtype, *word, 4));
                pairs::<T>(&elements.collect::<Vec<_>>())
            } else {
                bits.to_vec()
            };
            when(is_there, || {
                for (four, i) in words.chunks_exact(4).zip(0_u32..) {
                    to.at(row, column + 8 * i).reinterpret::<u32>().set_vec([four[0], four[1], four[2], four[3]]);
                }
            });
        }
    });
}

/// What a unit has from a column on: its bits in memory, or the words that it becomes.
fn bits_of<T: HalfOfPair>(from: From, start: Val<i64>, column: Val<u32>, dim: u32, exists: Val<bool>) -> [Val<u32>; 4] {
    let From { memory, dtype, wide, stride } = from;
    if wide {
        // Rows have whole units then.
        let first = memory.at(bytes_at(dtype, start + column.cast::<i64>()));
        return first.reinterpret::<u32>().get_vec_or(0_u32, exists & column.lt(dim));
    }
    let element = |i: u32| {
        let inside = (column + i).min(dim - 1);
        let at = memory.at(bytes_at(dtype, start + inside.cast::<i64>() * stride));
        let loaded: Val<f32> = load(dtype, at, 1, false)[0];
        (exists & (column + i).lt(dim)).select(loaded, 0.0)
    };
    let words = pairs::<T>(&(0..8).map(element).collect::<Vec<_>>());
    std::array::from_fn(|i| words[i])
}

fn pairs<T: HalfOfPair>(values: &[Val<f32>]) -> Vec<Val<u32>> {
    values.chunks_exact(2).map(|two| Val::<T::Pair>::from_f32(two[0], two[1]).bitcast::<u32>()).collect()
}
