//! Sizes of the tiles of a block.

use super::super::config::padded;
use super::super::problem::Problem;
use super::super::running::state_words;

/// What a block holds. The number of keys of a tile is part of the order of the fold, so it follows
/// from the head sizes alone; the rest may follow the batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WgmmaTile {
    /// Warpgroups that multiply: 1 to 3, each 64 rows.
    pub consumers: u32,
    /// Keys that are pushed at a time.
    pub keys: u32,
    /// Tiles in shared memory, of keys and of values in turns.
    pub stages: u32,
    /// Blocks that a multiprocessor holds at once: 1, or 2 where one warpgroup multiplies.
    pub blocks: u32,
    /// Whether two warpgroups start their products in turns (ping-pong), so that one computes
    /// weights while the other multiplies.
    pub ping_pong: bool,
    /// Whether the states of the segments before wait in shared memory instead of scratch memory.
    pub keeps_states: bool,
    /// Bytes of an element that is multiplied: 2, or 1 where products are made of 8-bit floats.
    pub element_bytes: u32,
}

/// Shared memory that barriers and numbers of items take.
pub(in crate::attention) const RESERVED: u32 = 1024;

/// Shared memory that the device takes for each block.
pub(in crate::attention) const SM_RESERVED: u32 = 1024;

/// Keys that are pushed at a time: wide heads, and masks with their addresses, leave registers for
/// so many.
pub(in crate::attention) const fn tile_keys(problem: &Problem) -> u32 {
    if problem.head_dim > 128 || problem.value_dim > 128 || problem.mask.is_some() { 64 } else { 128 }
}

impl WgmmaTile {
    /// For a problem, on a device: few rows per head take one warpgroup. `segments` says that a
    /// block folds several, `is_alone` that there is no more than one for each multiprocessor;
    /// `room` is shared memory that a block can have, in bytes.
    pub(in crate::attention) fn choose(
        problem: &Problem,
        rows_per_head: u64,
        [segments, is_alone]: [bool; 2],
        room: u32,
    ) -> Self {
        let [head, value] = [problem.head_dim, problem.value_dim].map(|dim| padded(dim as u32));
        let keys = tile_keys(problem);
        // Warps that transpose values need registers that a third warpgroup takes.
        let (element_bytes, is_narrow) = if problem.products.is_some() { (1, true) } else { (2, false) };
        let most = if head.max(value) <= 64 && !is_narrow { 3 } else { 2 };
        let consumers = (rows_per_head.div_ceil(64) as u32).clamp(1, most);
        let tile = |stages, blocks: u32, keeps_states| {
            let ping_pong = consumers == 2;
            let tile = Self { consumers, keys, stages, blocks, ping_pong, keeps_states, element_bytes };
            Some(tile)
                .filter(|tile| tile.shared_bytes(head, value) + RESERVED <= (SM_RESERVED + room) / blocks - SM_RESERVED)
        };
        // Two blocks hide the latencies of one another where each has one warpgroup; registers
        // suffice for heads of up to 128 elements, unless threads convert keys.
        let copies = problem.kv_dtype != problem.dtype || is_narrow;
        let blocks = if consumers == 1 && !is_alone && !copies && head.max(value) <= 128 { [2, 1] } else { [1, 1] };
        // More stages leave less of the L1 (measured, as in `choice.rs`).
        let most = if consumers == 3 || blocks[0] == 2 { 3 + blocks[0] / 2 } else { 6 };
        let stages = |blocks, keeps_states, least| (least..=most).rev().find_map(|n| tile(n, blocks, keeps_states));
        // States of few rows may as well lie in scratch memory.
        let keeps = segments.then(|| stages(1, true, 3)).flatten().filter(|_| consumers > 1);
        keeps.or_else(|| stages(blocks[0], false, 3)).or_else(|| stages(1, false, 2)).unwrap_or(Self {
            consumers,
            keys,
            stages: 2,
            blocks: 1,
            ping_pong: false,
            keeps_states: false,
            element_bytes,
        })
    }

    /// Rows of a block.
    #[must_use]
    pub const fn rows(self) -> u32 {
        64 * self.consumers
    }

    /// Threads of a block.
    #[must_use]
    pub const fn threads(self) -> u32 {
        128 * (self.consumers + 1)
    }

    /// Bytes of shared memory for tiles and states.
    #[must_use]
    pub fn shared_bytes(self, head_dim: u32, value_dim: u32) -> u32 {
        let [head, value] = [head_dim, value_dim].map(padded);
        let states = if self.keeps_states { 4 * self.state_words(value_dim) } else { 0 };
        let tiles = self.element_bytes * (self.rows() * head + self.stages * self.keys * head.max(value));
        tiles + states
    }

    /// Words of the states of a block.
    pub(super) fn state_words(self, value_dim: u32) -> u32 {
        128 * self.consumers * state_words(2, padded(value_dim) / 4)
    }
}
