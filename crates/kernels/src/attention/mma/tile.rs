//! Sizes of the tiles of a block.

use warpfold_device::Limits;

use super::super::config::padded;

/// What a block holds beside its 64 rows. The number of keys of a tile is part of the order of the
/// fold, so it follows from the head sizes alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MmaTile {
    /// Keys that are pushed at a time.
    pub keys: u32,
    /// Blocks that a multiprocessor holds at once.
    pub blocks: u32,
}

/// Tiles of keys, and of values, in shared memory.
pub(super) const STAGES: u32 = 2;

/// Rows of a block.
pub(super) const ROWS: u32 = 64;

/// Threads of a block.
pub(super) const THREADS: u32 = 128;

/// Shared memory of a block that barriers, what waits there, alignment and the device take.
const RESERVED: u32 = 3072;

/// Columns that are multiplied.
pub(super) const fn multiplied(dim: u32) -> u32 {
    dim.next_multiple_of(16)
}

impl MmaTile {
    /// For heads of so many elements, on a device. `is_plain` says that scores need nothing but a
    /// scale.
    pub(in crate::attention) fn choose([head_dim, value_dim]: [u32; 2], is_plain: bool, limits: &Limits) -> Self {
        let widest = head_dim.max(value_dim);
        // Of wide heads the registers hold no more scores beside the results, and the shared memory
        // of the smaller GPUs (99 KiB for a block) no more keys.
        let keys = if widest > 128 { 32 } else { 64 };
        // What registers allow without spills.
        let most = match widest {
            0..=64 if is_plain => 3,
            0..=128 => 2,
            _ => 1,
        };
        let tile = Self { keys, blocks: 1 };
        let room = limits.shared_bytes_per_sm / (tile.shared_bytes(head_dim, value_dim) + RESERVED);
        Self { blocks: room.clamp(1, most), ..tile }
    }

    /// Rows of a block.
    #[must_use]
    pub const fn rows(self) -> u32 {
        ROWS
    }

    /// Threads of a block.
    #[must_use]
    pub const fn threads(self) -> u32 {
        THREADS
    }

    /// Bytes of shared memory for tiles.
    #[must_use]
    pub const fn shared_bytes(self, head_dim: u32, value_dim: u32) -> u32 {
        let (head, value) = (padded(head_dim), padded(value_dim));
        2 * (ROWS * head + STAGES * self.keys * (head + value))
    }
}
