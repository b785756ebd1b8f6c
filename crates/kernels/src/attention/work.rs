//! What a block is to do: which sequence, which head of keys, which rows, which keys.
//!
//! Rows of one head of keys are `(query, head of the group)`, the heads side by side, in tiles. So
//! decode with grouped queries fills a tile, and keys are loaded once for a group.

use warpfold_lang::{Global, Lanes, Val, ballot, lane_id, range, shfl, var, when};

use super::args::AttentionArgs;
use super::problem::{Causal, Keys, Problem, Queries};
use super::segment_keys;
use crate::Dtype;

/// What decides on the code of the search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct WorkConfig {
    /// Rows of a tile.
    pub(super) rows: u32,
    /// Whether sequences of queries lie one after the other.
    pub(super) packed: bool,
    /// How many keys a sequence has.
    pub(super) key_lens: KeyLens,
    pub(super) causal: Option<Causal>,
    pub(super) window_left: bool,
    /// Not with `causal`, which sees no key after a query.
    pub(super) window_right: bool,
    /// Whether keys are split over blocks.
    pub(super) split: bool,
    /// Keys of a segment.
    pub(super) segment: u32,
}

/// Where the number of keys of a sequence comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum KeyLens {
    /// All have the same.
    Same,
    /// From where the next one begins.
    Packed,
    /// From a list.
    Listed,
}

impl WorkConfig {
    pub(super) const fn of(problem: &Problem, rows: u32, split: bool) -> Self {
        Self {
            rows,
            packed: matches!(problem.queries, Queries::Packed { .. }),
            key_lens: match problem.keys {
                Keys::Dense { .. } => KeyLens::Same,
                Keys::Packed { .. } => KeyLens::Packed,
                Keys::Padded { .. } | Keys::Paged { .. } => KeyLens::Listed,
            },
            causal: problem.causal,
            window_left: problem.window_left.is_some(),
            window_right: problem.window_right.is_some() && problem.causal.is_none(),
            split,
            segment: segment_keys(problem.head_dim, problem.value_dim),
        }
    }
}

/// One thing to do.
#[derive(Debug, Clone, Copy)]
pub(super) struct Item {
    /// Whether there is anything.
    pub(super) exists: Val<bool>,
    /// Which tile of rows, of all: parts of its keys have the same.
    pub(super) number: Val<u32>,
    pub(super) sequence: Val<u32>,
    pub(super) kv_head: Val<u32>,
    /// The first of its rows.
    pub(super) first_row: Val<u32>,
    /// Rows of the sequence for this head of keys.
    pub(super) num_rows: Val<u32>,
    /// The first query of the sequence, among all.
    pub(super) first_query: Val<u32>,
    /// The first key of the sequence, among all.
    pub(super) first_key: Val<u32>,
    pub(super) num_keys: Val<u32>,
    /// What is added to the number of a query for its position among the keys.
    pub(super) offset: Val<i32>,
    /// The keys that any of the rows sees, and that belong to the part.
    pub(super) keys: (Val<u32>, Val<u32>),
}

/// Finds an item. All lanes of a warp come here together, and all of them find it.
pub(super) fn find(config: &WorkConfig, args: &AttentionArgs, item: Val<u32>) -> Item {
    let (splits, kv_heads, batch, group) = (args.splits.get(), args.kv_heads.get(), args.batch.get(), args.group.get());
    let (split, number) = if config.split { (item % splits, item / splits) } else { (Val::constant(0), item) };
    let (kv_head, (sequence, tile, exists)) = if config.packed {
        (number % kv_heads, find_packed(config, args.cu_queries, batch, group, number / kv_heads))
    } else {
        // Heads by sections, whose keys the L2 holds; of each the last tiles first: with a causal
        // mask they take longest.
        let (section, tiles) = (args.section.get(), args.tiles.get());
        let first = number / (section * tiles) * section;
        let (in_section, heads) = (number - first * tiles, (batch * kv_heads - first).min(section));
        let head = first + in_section % heads;
        (head % kv_heads, (head / kv_heads, tiles - 1 - in_section / heads, Val::constant(true)))
    };
    let (first_query, num_queries) = if config.packed {
        let first = args.cu_queries.at(sequence).get_or(0, exists);
        let next = args.cu_queries.at(sequence + 1).get_or(0, exists);
        (first.cast::<u32>(), (next - first).cast::<u32>())
    } else {
        (Val::constant(0), args.queries.get())
    };
    // Whatever the lists say, no more than the plan has room for.
    let bounded = |len: Val<i32>| len.max(0).cast::<u32>().min(args.keys.get());
    let (first_key, num_keys) = match config.key_lens {
        KeyLens::Same => (Val::constant(0), args.keys.get()),
        KeyLens::Listed => (Val::constant(0), bounded(args.key_lens.at(sequence).get_or(0, exists))),
        KeyLens::Packed => {
            let first = args.key_lens.at(sequence).get_or(0, exists);
            let next = args.key_lens.at(sequence + 1).get_or(0, exists);
            (first.cast::<u32>(), bounded(next - first))
        }
    };
    let offset = match config.causal {
        Some(Causal::TopLeft) => Val::constant(0),
        Some(Causal::BottomRight) | None => num_keys.cast::<i32>() - num_queries.cast::<i32>(),
    };
    let (first_row, num_rows) = (tile * config.rows, num_queries * group);
    let last_row = (first_row + (config.rows - 1)).min(num_rows - 1);
    let position = |row: Val<u32>| (row / group).cast::<i32>() + offset;
    let mut end = num_keys.cast::<i32>();
    if config.causal.is_some() {
        end = end.min(position(last_row) + 1);
    } else if config.window_right {
        end = end.min(position(last_row) + args.window_right.get().cast::<i32>() + 1);
    }
    let mut begin = Val::constant(0_i32);
    if config.window_left {
        begin = begin.max(position(first_row) - args.window_left.get().cast::<i32>());
    }
    if config.split {
        let part = args.segments.get() * config.segment;
        begin = begin.max((split * part).cast::<i32>());
        end = end.min((split * part + part).cast::<i32>());
    }
    // An empty range must not lie inside of a segment.
    let has_keys = begin.lt(end);
    let keys = (has_keys.select(begin, 0).cast::<u32>(), has_keys.select(end, 0).cast::<u32>());
    Item { exists, number, sequence, kv_head, first_row, num_rows, first_query, first_key, num_keys, offset, keys }
}

/// The sequence that has the `tile`-th tile of all, and which of its own it is: every warp counts
/// the tiles of 32 sequences at a time.
fn find_packed(
    config: &WorkConfig,
    cu_queries: Global<i32>,
    batch: Val<u32>,
    group: Val<u32>,
    tile: Val<u32>,
) -> (Val<u32>, Val<u32>, Val<bool>) {
    let (sequence, of_sequence, found) = (var(0_u32), var(0_u32), var(0_u32));
    let before = var(0_u32);
    range(0_u32, batch, 32_u32, |first| {
        let i = first + lane_id();
        let is_there = i.lt(batch);
        let begin = cu_queries.at(i).get_or(0, is_there);
        let end = cu_queries.at(i + 1).get_or(0, is_there);
        let tiles = ((end - begin).cast::<u32>() * group).div_ceil(config.rows);
        let sum = var(tiles);
        for delta in [1_u32, 2, 4, 8, 16] {
            let other = Lanes::all_lanes().shfl_up(sum.get(), delta);
            sum.set(lane_id().ge(delta).select(sum.get() + other, sum.get()));
        }
        let last = before.get() + sum.get();
        let has = tile.ge(last - tiles) & tile.lt(last);
        let lanes = ballot(has);
        let lane = lanes.ctz().min(31);
        let own = shfl(tile - (last - tiles), lane);
        when(lanes.ne(0), || {
            sequence.set(first + lane);
            of_sequence.set(own);
            found.set(1_u32);
        });
        before.set(before.get() + shfl(sum.get(), 31));
    });
    (sequence.get(), of_sequence.get(), found.get().ne(0))
}

impl Item {
    /// A row of the tile as it is found in tensors; rows beyond the last are the last.
    pub(super) fn row(&self, args: &AttentionArgs, row: Val<u32>) -> Row {
        let group = args.group.get();
        let number = self.first_row + row;
        let inside = number.min(self.num_rows - 1);
        let query = inside / group;
        let head = self.kv_head * group + (inside - query * group);
        Row { exists: number.lt(self.num_rows), query, head, position: query.cast::<i32>() + self.offset }
    }
}

/// A row of a tile.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    pub(super) exists: Val<bool>,
    /// The number of the query in its sequence.
    pub(super) query: Val<u32>,
    pub(super) head: Val<u32>,
    /// The position of the query among the keys.
    pub(super) position: Val<i32>,
}

/// Bytes into a tensor of a type, from an index of elements.
pub(super) fn bytes_at(dtype: Dtype, index: Val<i64>) -> Val<i64> {
    index * dtype.bytes() as i64
}
