//! Attention on the tensor cores of Hopper, for f16 and bf16: one warpgroup loads (TMA where tensors
//! allow it, threads elsewhere), one to three multiply, each 64 rows, and softmax of one tile of
//! keys runs under the products of the next (Shah et al., FlashAttention-3, 2024).
//!
//! `kernel` has the roles, `load` the first, `attend` the others, `softmax` what is done to scores.
//! The order of the fold is that of the module above, with tiles of [`WgmmaTile::keys`] keys.

mod attend;
mod kernel;
mod load;
mod maps;
mod softmax;
mod tile;

pub(super) use kernel::{WgmmaConfig, attend_wgmma, state_words_of_block};
pub(super) use maps::maps;
pub use tile::WgmmaTile;

use crate::Dtype;

/// Elements that a thread loads at once, where tensors allow it: 16 bytes.
pub(super) const fn wide(dtype: Dtype) -> u64 {
    16 / dtype.bytes()
}
