//! The warps that load: queries, then tiles of keys and values, as soon as there is room.

use warpfold_lang::{Cursor, Major, Pipeline, Tile, Val, Var, fence_async, range, thread_idx, var, when};

use super::super::boxes::{load_boxes, page_of_box};
use super::super::copy_rows::{From, copy_rows};
use super::super::factor::Factor;
use super::super::work::{Item, Row};
use super::kernel::{Block, Cursors, LOADING as THREADS, WgmmaConfig};
use super::transpose_rows::transpose_rows;

/// Units that a thread has on their way at once.
const UNROLL: u32 = 6;

/// As many for elements one by one: a unit has 16 bytes of them.
const fn unroll<T: Factor>(from: &From) -> u32 {
    if from.wide { UNROLL } else { UNROLL * T::BYTES / 2 }
}

/// What the warps that load do.
pub(super) struct Loader<'a, T> {
    block: &'a Block<'a, T>,
    at: Cursors,
}

impl<'a, T: Factor> Loader<'a, T> {
    pub(super) fn new(block: &'a Block<'a, T>, at: Cursors) -> Self {
        Self { block, at }
    }

    /// Loads what an item needs: where TMA brings all of it one warp comes here.
    pub(super) fn load(&self, item: &Item) {
        let WgmmaConfig { maps_queries, maps_keys, tile, .. } = self.block.config;
        let [q, kv] = self.at;
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
                Some(keys) if which == 0 || self.block.values_by_tma() => {
                    self.keys_by_tma(item, which, number * tile.keys, (*keys, page));
                }
                _ => self.keys_by_threads(item, which, number * tile.keys),
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
    }

    /// Rows of a tile are `(query, head of the group)`: a box of heads and queries.
    fn queries_by_tma(&self, item: &Item) {
        let Block { queries, rings, maps, launch, .. } = self.block;
        let barrier = rings[0].full(self.at[0]);
        let group = launch.args.group.get();
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
        let config = launch.config;
        for i in 0..queries.len() {
            let place = |row: Val<u32>| {
                let row: Row = item.row(&launch.args, row + 64 * i);
                (launch.place_of_query(item, &row), Val::constant(true))
            };
            let from = From {
                memory: launch.args.q.memory,
                dtype: config.dtype,
                wide: config.wide[0],
                stride: launch.args.q.element.get(),
            };
            copy_rows(queries.at(i), config.head_dim, (THREADS, unroll::<T>(&from)), from, &place);
        }
        hand_over(rings[0], self.at[0]);
    }

    /// A tile of keys (0) or values (1), box by box; of pages each thread has a box.
    fn keys_by_tma(&self, item: &Item, which: usize, first: Val<u32>, (box_keys, page): (u32, Option<Val<u32>>)) {
        let Block { rings, maps, launch, .. } = self.block;
        let barrier = rings[1].full(self.at[1]);
        let tile = self.tile(which);
        let map = maps[1 + which];
        let thread = thread_idx().x;
        when(thread.eq(0), || barrier.arrive_expect(tile.bytes()));
        if !self.block.values_by_tma() {
            // Stages hold keys and values in turns, and wait for as many.
            when(thread.ne(0), || barrier.arrive());
        }
        load_boxes((launch, item), map, (tile, barrier), first, (box_keys, page));
    }

    /// The pages of this thread's boxes, beginning with those of a tile.
    fn pages<'b>(&'b self, item: &'b Item, begin: Val<u32>) -> Option<Pages<'b>> {
        let Block { config, launch, .. } = self.block;
        let box_keys = config.maps_keys.filter(|_| launch.config.paged)?;
        let keys = [config.tile.keys, box_keys];
        let read = move |number: Val<u32>| page_of_box(launch, item, number, keys);
        let (before, next) = (var(0_u32), var(read(begin)));
        Some(Pages { read: Box::new(read), before, next })
    }

    fn keys_by_threads(&self, item: &Item, which: usize, first: Val<u32>) {
        let launch = &self.block.launch;
        let config = launch.config;
        let (tensor, dim) =
            if which == 0 { (launch.args.k, config.head_dim) } else { (launch.args.v, config.value_dim) };
        let (strides, memory) = (tensor.strides(), tensor.memory);
        let place = |row: Val<u32>| {
            let key = first + row;
            (launch.place_of_key(item, key.min(item.num_keys - 1), strides), key.lt(item.num_keys))
        };
        let from = From { memory, dtype: config.kv_dtype, wide: config.wide[1], stride: strides[3] };
        if which == 1 && T::VALUES == Major::K {
            transpose_rows(self.tile(which), dim, THREADS, from, &place);
        } else {
            copy_rows(self.tile(which), dim, (THREADS, unroll::<T>(&from)), from, &place);
        }
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
