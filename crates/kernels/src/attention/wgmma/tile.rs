//! Sizes of the tiles of a block.

use warpfold_device::Limits;
use warpfold_lang::Swizzle;

use super::super::problem::Problem;

/// What a block holds. The number of keys of a tile is part of the order of the fold, so it follows
/// from the head sizes alone; the rest may follow the batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WgmmaTile {
    /// Warpgroups that multiply: 1 to 3, each 64 rows.
    pub consumers: u32,
    /// Keys that are pushed at a time.
    pub keys: u32,
    /// Tiles of keys, and as many of values, in shared memory.
    pub stages: u32,
    /// Whether two warpgroups start their products in turns (ping-pong), so that one computes
    /// weights while the other multiplies.
    pub ping_pong: bool,
}

/// Shared memory that barriers and numbers of items take.
const RESERVED: u32 = 1024;

/// Columns that a head takes in shared memory: whole panels.
pub(super) const fn padded(dim: u32) -> u32 {
    dim.next_multiple_of(32)
}

/// Panels as wide as the columns allow.
pub(super) const fn swizzle(columns: u32) -> Swizzle {
    if columns.is_multiple_of(64) { Swizzle::Bytes128 } else { Swizzle::Bytes64 }
}

impl WgmmaTile {
    /// For a problem, on a device: few rows a head take one warpgroup.
    pub(in crate::attention) fn choose(problem: &Problem, rows_per_head: u64, limits: &Limits) -> Self {
        let [head, value] = [problem.head_dim, problem.value_dim].map(|dim| padded(dim as u32));
        let keys = if head.max(value) > 128 { 64 } else { 128 };
        let most = if head.max(value) <= 64 { 3 } else { 2 };
        let consumers = (rows_per_head.div_ceil(64) as u32).clamp(1, most);
        let stage = 2 * keys * (head + value);
        let room = limits.shared_bytes_per_block_optin.saturating_sub(RESERVED + 2 * 64 * consumers * head);
        Self { consumers, keys, stages: (room / stage).clamp(1, 4), ping_pong: consumers == 2 }
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

    /// Bytes of shared memory for tiles.
    #[must_use]
    pub fn shared_bytes(self, head_dim: u32, value_dim: u32) -> u32 {
        let [head, value] = [head_dim, value_dim].map(padded);
        2 * (self.rows() * head + self.stages * self.keys * (head + value))
    }
}
