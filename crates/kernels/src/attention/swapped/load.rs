//! The warps that load: one brings tiles of keys and values by TMA, as they are, two bring queries.

use warpfold_lang::{HalfOfPair, Val, fence_async, range, thread_idx, var, when};

use super::super::boxes::{load_boxes, page_of_box};
use super::super::factor::Factor;
use super::super::work::{Item, bytes_at};
use super::kernel::{Block, Cursors, LOADING};

/// What the warps that load do.
pub(super) struct Loader<'a, T> {
    block: &'a Block<'a, T>,
    at: Cursors,
}

impl<'a, T: Factor + HalfOfPair> Loader<'a, T> {
    pub(super) fn new(block: &'a Block<'a, T>, at: Cursors) -> Self {
        Self { block, at }
    }

    /// Keys and values of an item, tile by tile, as soon as there is room.
    pub(super) fn keys(&self, item: &Item) {
        let Block { config, launch, rings: [_, ring], .. } = *self.block;
        let (at, keys) = (self.at[1], config.tile.keys);
        let page_of = |number: Val<u32>| page_of_box(&launch, item, number, [keys, config.box_keys]);
        let [begin, end] = self.block.tiles_of(item);
        let next = launch.config.paged.then(|| var(page_of(begin)));
        range(begin, end, 1_u32, |number| {
            let page = next.map(|next| {
                let page = next.get();
                // The next tile's pages are on their way while this one's boxes are.
                next.set(page_of(number + 1));
                page
            });
            for (map, stages) in self.block.maps.into_iter().zip(self.block.stages) {
                ring.acquire(at);
                let (tile, barrier) = (stages.at(at.stage()), ring.full(at));
                when(thread_idx().x.eq(0), || barrier.arrive_expect(tile.bytes()));
                load_boxes((&launch, item), map, (tile, barrier), number * keys, (config.box_keys, page));
                at.advance();
            }
        });
    }

    /// Queries of an item. Even bytes of keys become one register and odd ones another: so of each
    /// 16 elements the even ones come first.
    pub(super) fn queries(&self, item: &Item) {
        let Block { launch, queries, rings: [ring, _], .. } = *self.block;
        let (at, config) = (self.at[0], launch.config);
        ring.acquire(at);
        let tile = queries.at(at.stage());
        // Rows first: the swizzle puts what they write into different banks.
        let (rows, pieces) = (tile.rows(), tile.columns() / 16);
        range(thread_idx().x - 32, rows * pieces, LOADING, |unit| {
            let (number, column) = (unit % rows, unit / rows * 16);
            let row = item.row(&launch.args, number);
            let start = launch.place_of_query(item, &row) + column.cast::<i64>();
            let from = launch.args.q.memory.at(bytes_at(config.dtype, start)).reinterpret::<u32>();
            let words = [0, 4].map(|i| from.at(i).get_vec_or::<4>(0_u32, column.lt(config.head_dim))).concat();
            for (half, order) in [(0, 0x5410), (8, 0x7632)] {
                let pairs = [0, 1, 2, 3].map(|i| words[2 * i].prmt(words[2 * i + 1], order));
                tile.at(number, column + half).reinterpret::<u32>().set_vec(pairs);
            }
        });
        fence_async();
        ring.full(at).arrive();
        at.advance();
    }
}
