//! Combines the states of segments where blocks share the keys of a row, from the first segment to
//! the last: in a launch of its own, or in the last of those blocks. Both give the same bits.

use warpfold_lang::{Array, Global, Order, Val, block_idx, kernel, range, shared_named, var, warp_id, when};

use super::config::{Config, FLOATS, Launch, MAX_INPUTS};
use super::output::Columns;
use super::simt::{Attend, BLOCK};
use super::state::State;
use super::work::{Item, SIZES, STRIDES, Size, WorkConfig, find};
use crate::overlap::overlap_launches;

/// What the kernel takes: as [`Attend`], whose partial results it reads.
pub(super) type Merge = Attend;

/// Segments whose states are on their way at once.
const UNROLL: u32 = 8;

/// The kernel: a block for each tile of rows, one warp per row.
pub(super) fn merge(config: &Config) -> Merge {
    let config = config.clone();
    let name = format!("attention_merge{}_{}", config.work.rows, config.name());
    let body = move |inputs: [Global<u8>; MAX_INPUTS],
                     out: Global<u8>,
                     lse: Global<f32>,
                     _: Global<f32>,
                     partials: Global<f32>,
                     sizes: Array<u32, SIZES>,
                     strides: Array<i64, STRIDES>,
                     floats: Array<f32, FLOATS>| {
        overlap_launches();
        // Contract: a grid of a block for each item of one part.
        let tensors = config.tensors(inputs, out, lse);
        let launch = Launch { config: &config, tensors, sizes, strides, floats };
        merge_tile(&launch, partials, block_idx().x, (warp_id(), BLOCK / 32));
    };
    kernel(name, body).required_block(BLOCK)
}

/// Combines what blocks have left of a tile of rows: each of some warps takes rows in turns.
fn merge_tile(launch: &Launch<'_>, partials: Global<f32>, tile: Val<u32>, (warp, warps): (Val<u32>, u32)) {
    let Launch { config, tensors, sizes, .. } = *launch;
    let whole = WorkConfig { split: false, ..config.work };
    let item = find(&whole, sizes, &tensors.lists, tile);
    when(item.exists, || {
        range(warp, (item.num_rows - item.first_row).min(config.work.rows), warps, |number| {
            let state = fold(launch, partials, &item, number);
            let row = item.row(sizes, number);
            launch.finish(&item, &row, &state, Columns::Strided);
        });
    });
}

/// The warps of a block that leave parts, and combine them if they are the last.
pub(super) struct Team<'a> {
    /// Which of its threads this one is.
    pub(super) thread: Val<u32>,
    pub(super) threads: u32,
    /// Their barrier.
    pub(super) sync: &'a dyn Fn(),
}

/// Behind a part: the block that is the last of a tile of rows combines what all have left. There
/// is a ticket for each tile, zero before and after.
pub(super) fn merge_if_last(
    launch: &Launch<'_>,
    partials: Global<f32>,
    tickets: Global<u32>,
    item: &Item,
    team: &Team<'_>,
) {
    let is_last = shared_named::<u32>("is_last", 1);
    let last = launch.size(Size::Splits) - 1;
    // The release side shows this block's part to the last one, whose acquire side sees all.
    (team.sync)();
    when(team.thread.eq(0), || {
        let ticket = tickets.at(item.number).atomic().order(Order::AcqRel);
        is_last.set(ticket.increment_wrapping(last).eq(last).cast::<u32>());
    });
    (team.sync)();
    when(is_last.get().ne(0), || {
        merge_tile(launch, partials, item.number, (team.thread / 32, team.threads / 32));
    });
}

/// The state of a row from those of its segments.
fn fold(launch: &Launch<'_>, partials: Global<f32>, item: &Item, row: Val<u32>) -> State {
    let columns = launch.config.value_dim.div_ceil(32);
    let segment = launch.config.work.segment;
    let (begin, end) = (item.keys.0 / segment, item.keys.1.div_ceil(segment));
    let [max, sum] = [var(f32::NEG_INFINITY), var(0.0_f32)];
    let output: Vec<_> = (0..columns).map(|_| var(0.0_f32)).collect();
    let get = || State { max: max.get(), sum: sum.get(), output: output.iter().map(|var| var.get()).collect() };
    range(begin, end, UNROLL, |first| {
        let next: Vec<_> = (0..UNROLL)
            .map(|i| first + i)
            .map(|segment| read(launch.config, launch.partial(partials, item, row, segment), segment.lt(end)))
            .collect();
        let state = next.iter().fold(get(), |state, next| state.combine(next));
        max.set(state.max);
        sum.set(state.sum);
        output.iter().zip(state.output).for_each(|(var, value)| var.set(value));
    });
    get()
}

/// A state; of no keys where there is none.
fn read(config: &Config, place: Global<f32>, exists: Val<bool>) -> State {
    let column = |i: u32| {
        let column = Columns::Strided.at(i);
        place.at(column).get_or(0.0, exists & column.lt(config.value_dim))
    };
    let output = (0..config.value_dim.div_ceil(32)).map(column).collect();
    let of_row = |i: u32, default: f32| place.at(config.value_dim + i).get_or(default, exists);
    State { max: of_row(0, f32::NEG_INFINITY), sum: of_row(1, 0.0), output }
}
