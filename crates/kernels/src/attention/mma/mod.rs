//! Attention by `mma.sync` and `cp.async`, for f16 and bf16 on GPUs without WGMMA (sm_80 and
//! newer): four warps of 16 rows each, keys and values in two stages (Dao, FlashAttention-2, 2023).
//!
//! `kernel` draws items, `load` copies, `attend` multiplies; softmax and states are those of the
//! kernel for Hopper, as sums lie in the same registers. The order of the fold is that of the
//! module above, with tiles of [`MmaTile::keys`] keys.

mod attend;
mod kernel;
mod load;
mod tile;

pub(super) use kernel::{MmaConfig, attend_mma, state_words_of_block};
pub use tile::MmaTile;

/// Elements that a thread loads at once, where tensors allow it.
pub(super) const WIDE: u64 = 8;
