//! Sizes of the tiles of a block.

use super::super::config::{AttentionConfig, padded};
use super::super::copy_rows::wide;
use super::super::problem::Problem;
use super::super::running::state_words;
use super::super::wgmma::{RESERVED, SM_RESERVED, mapped_keys, tile_keys};

/// What a block holds. The number of keys of a tile is part of the order of the fold, so it follows
/// from the head sizes alone; the rest may follow the batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SwappedTile {
    /// Queries: 8, 16 or 32.
    pub rows: u32,
    /// Keys that are pushed at a time.
    pub keys: u32,
    /// Tiles in shared memory, of keys and of values in turns.
    pub stages: u32,
    /// Blocks that a multiprocessor holds at once: 1 or 2.
    pub blocks: u32,
}

// THRESHOLD: more rows take several tiles; tested by
// crates/conformance/tests/attention/paged.rs::few_queries_over_any_bytes_have_the_bits_of_sixteen_ones_for_heads_and_groups_of_every_size
/// Rows of a tile of queries at most: what a warpgroup has registers for.
const MOST_ROWS: u64 = 32;

// THRESHOLD: more rows are left to threads that convert; tested by
// crates/conformance/tests/attention/paged.rs::few_queries_over_any_bytes_have_the_bits_of_sixteen_ones_for_heads_and_groups_of_every_size
/// Rows of a head of keys at most: from more on products take longer than two passes over keys.
const MOST_ROWS_OF_HEAD: u64 = 64;

/// Tiles of queries, so that the next ones are there before an item begins.
pub(super) const QUERIES: u32 = 2;

/// Words between the weights of two rows are as many more than keys, so that no lanes meet in a
/// bank.
pub(super) const GAP: u32 = 4;

/// Where tiles begin.
const ALIGNMENT: u32 = 1024;

impl SwappedTile {
    /// Threads of a block: a warpgroup that loads, and one that multiplies.
    pub const THREADS: u32 = 256;

    /// For a problem that has few rows a head, if it is possible. `segments` says that a block
    /// folds several, `is_alone` that there is no more than one for each multiprocessor; `room` is
    /// shared memory that a block can have, in bytes.
    pub(in crate::attention) fn choose(
        problem: &Problem,
        rows_per_head: u64,
        [segments, is_alone]: [bool; 2],
        room: u32,
    ) -> Option<Self> {
        let Problem { dtype, kv_dtype, products, .. } = *problem;
        let converts = dtype.bytes() == 2 && kv_dtype.bytes() == 1 && products.is_none();
        if !converts || rows_per_head > MOST_ROWS_OF_HEAD {
            return None;
        }
        let (rows, keys) = (rows_per_head.next_power_of_two().clamp(8, MOST_ROWS) as u32, tile_keys(problem));
        let is_wide = AttentionConfig::new(problem, rows, wide, false, false).wide == [true; 2];
        if !is_wide || mapped_keys(problem, (1, keys), true).is_none() {
            return None;
        }
        let fits = |tile: &Self| {
            let bytes = tile.shared_bytes([problem.head_dim, problem.value_dim].map(|dim| dim as u32), segments);
            bytes + RESERVED <= (SM_RESERVED + room) / tile.blocks - SM_RESERVED
        };
        // More stages are slower: 6 for each of two blocks by a tenth (docs/notes/attention.md).
        let most: &[[u32; 2]] = if is_alone { &[[1, 6]] } else { &[[2, 3], [1, 6]] };
        most.iter().find_map(|[blocks, most]| {
            let tile = |stages| Self { rows, keys, stages, blocks: *blocks };
            (2..=*most).rev().map(tile).find(fits)
        })
    }

    /// Bytes of shared memory for tiles, weights and states.
    pub(in crate::attention) fn shared_bytes(self, dims @ [head_dim, value_dim]: [u32; 2], segments: bool) -> u32 {
        let Self { rows, keys, stages, .. } = self;
        let [head, value] = [head_dim, value_dim].map(padded);
        let of_tiles = [QUERIES * rows * head * 2, stages * keys * head.max(value), rows * keys * 2];
        let of_tiles: u32 = of_tiles.iter().map(|bytes| bytes.next_multiple_of(ALIGNMENT)).sum();
        let states = if segments { self.state_words(dims[1]) } else { 0 };
        of_tiles + 4 * (rows * (keys + GAP) + 6 * rows + states)
    }

    /// Words of the states of the segments before.
    pub(super) fn state_words(self, value_dim: u32) -> u32 {
        128 * state_words(self.rows / 4, 2 * padded(value_dim).div_ceil(64))
    }
}
