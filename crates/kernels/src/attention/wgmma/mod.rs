//! Attention on the tensor cores of Hopper, for f16 and bf16: one warpgroup loads (TMA where
//! tensors allow it, threads elsewhere), one to three multiply, each 64 rows, and softmax of one
//! tile of keys runs under the products of the next (Shah et al., FlashAttention-3, 2024).
//!
//! `kernel` has the roles, `load` the first, `attend` the others. The order of the fold is that of
//! the module above, with tiles of [`WgmmaTile::keys`] keys.

mod attend;
mod kernel;
mod load;
mod maps;
mod tile;

pub(super) use kernel::{WgmmaConfig, attend_wgmma, state_words_of_block};
pub(super) use maps::maps;
pub use tile::WgmmaTile;
