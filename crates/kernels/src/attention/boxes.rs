//! Tiles of keys and values by TMA, box by box: of a page, or of a whole tile.

use warpfold_lang::{Barrier, Element, TensorMap, Tile, Val, thread_idx, when};

use super::config::Launch;
use super::work::{Item, KeyLens};

/// Starts the copies of the tile of keys, or of values, from `first` on. The first threads of the
/// block come here: of pages each has a box, with the page that [`page_of_box`] found for it. One
/// of them has told the barrier how many bytes to expect.
pub(super) fn load_boxes<T: Element>(
    (launch, item): (&Launch<'_>, &Item),
    map: TensorMap<T>,
    (tile, barrier): (Tile<T>, Barrier),
    first: Val<u32>,
    (box_keys, page): (u32, Option<Val<u32>>),
) {
    let thread = thread_idx().x;
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
    when(thread.lt(tile.rows() / box_keys), || {
        let row = thread * box_keys;
        let position = first + row;
        let page_size = launch.args.page.get();
        for (column, panel) in tile.panels() {
            let to = panel.at(row * tile.panel_columns());
            map.load(to, [Val::constant(column), position % page_size, item.kv_head, page], barrier);
        }
    });
}

/// The page of this thread's box of a tile of keys.
pub(super) fn page_of_box(
    launch: &Launch<'_>,
    item: &Item,
    number: Val<u32>,
    [tile_keys, box_keys]: [u32; 2],
) -> Val<u32> {
    // A page beyond the sequence is no page: what comes in its place is not looked at.
    let row = (thread_idx().x * box_keys).min(tile_keys - box_keys);
    let position = (number * tile_keys + row).min(item.num_keys.max(1) - 1);
    launch.page(item, position / launch.args.page.get()).cast::<u32>()
}
