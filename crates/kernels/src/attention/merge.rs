//! Combines the states of segments where blocks share the keys of a row, from the first segment to
//! the last: in a launch of its own, or in the last of those blocks. Both give the same bits.

use warpfold_lang::{Global, Kernel, Order, Val, block_idx, kernel, range, shared_named, var, warp_id, when};

use super::args::AttentionArgs;
use super::config::{AttentionConfig, Launch};
use super::output::Columns;
use super::simt::BLOCK;
use super::state::State;
use super::work::{Item, WorkConfig, find};
use crate::overlap::overlap_launches;

/// Segments whose states are on their way at once.
const UNROLL: u32 = 8;

/// The kernel: a block for each tile of rows, one warp per row.
pub(super) fn merge(config: &AttentionConfig) -> Kernel<AttentionArgs> {
    let config = config.clone();
    let name = format!("attention_merge{}_{}", config.work.rows, config.name());
    let body = move |args: AttentionArgs| {
        overlap_launches();
        // Contract: a grid of a block for each item of one part.
        merge_tile(&Launch { config: &config, args }, block_idx().x, (warp_id(), BLOCK / 32));
    };
    kernel(name, body).required_block(BLOCK)
}

/// Combines what blocks have left of a tile of rows: each of some warps takes rows in turns.
fn merge_tile(launch: &Launch<'_>, tile: Val<u32>, (warp, warps): (Val<u32>, u32)) {
    let Launch { config, args } = launch;
    let whole = WorkConfig { split: false, ..config.work };
    let item = find(&whole, args, tile);
    when(item.exists, || {
        range(warp, (item.num_rows - item.first_row).min(config.work.rows), warps, |number| {
            let state = fold(launch, &item, number);
            let row = item.row(args, number);
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
pub(super) fn merge_if_last(launch: &Launch<'_>, tickets: Global<u32>, item: &Item, team: &Team<'_>) {
    let is_last = shared_named::<u32>("is_last", 1);
    let last = launch.args.splits.get() - 1;
    // The release side shows this block's part to the last one, whose acquire side sees all.
    (team.sync)();
    when(team.thread.eq(0), || {
        let ticket = tickets.at(item.number).atomic().order(Order::AcqRel);
        is_last.set(ticket.increment_wrapping(last).eq(last).cast::<u32>());
    });
    (team.sync)();
    when(is_last.get().ne(0), || {
        merge_tile(launch, item.number, (team.thread / 32, team.threads / 32));
    });
}

/// The state of a row from those of its segments.
fn fold(launch: &Launch<'_>, item: &Item, row: Val<u32>) -> State {
    let columns = launch.config.value_dim.div_ceil(32);
    let segment = launch.config.work.segment;
    let (begin, end) = (item.keys.0 / segment, item.keys.1.div_ceil(segment));
    let [max, sum] = [var(f32::NEG_INFINITY), var(0.0_f32)];
    let output: Vec<_> = (0..columns).map(|_| var(0.0_f32)).collect();
    let get = || State { max: max.get(), sum: sum.get(), output: output.iter().map(|var| var.get()).collect() };
    range(begin, end, UNROLL, |first| {
        let next: Vec<_> = (0..UNROLL)
            .map(|i| first + i)
            .map(|segment| read(launch.config, launch.partial(item, row, segment), segment.lt(end)))
            .collect();
        let state = next.iter().fold(get(), |state, next| state.combine(next));
        max.set(state.max);
        sum.set(state.sum);
        output.iter().zip(state.output).for_each(|(var, value)| var.set(value));
    });
    get()
}

/// A state; of no keys where there is none.
fn read(config: &AttentionConfig, place: Global<f32>, exists: Val<bool>) -> State {
    let column = |i: u32| {
        let column = Columns::Strided.at(i);
        place.at(column).get_or(0.0, exists & column.lt(config.value_dim))
    };
    let output = (0..config.value_dim.div_ceil(32)).map(column).collect();
    let of_row = |i: u32, default: f32| place.at(config.value_dim + i).get_or(default, exists);
    State { max: of_row(0, f32::NEG_INFINITY), sum: of_row(1, 0.0), output }
}
