//! Attention on the tensor cores of Hopper, for f16 and bf16: one warpgroup loads (TMA where
//! tensors allow it, threads elsewhere), one to three multiply, each 64 rows, and softmax of one
//! tile of keys runs under the products of the next (Shah et al., FlashAttention-3, 2024).
//!
//! Where it is asked for, also of 8-bit floats as they are: `transpose_rows` brings their values,
//! and segments, which are folded in `f32`, bound what short sums of tensor cores lose.
//!
//! `kernel` has the roles, `load` the first, `attend` the others. The order of the fold is that of
//! the module above, with tiles of [`WgmmaTile::keys`] keys.

mod attend;
mod kernel;
mod load;
mod maps;
mod tile;
mod transpose_rows;

pub(super) use kernel::{MappedArgs, WgmmaConfig, attend_wgmma, state_words_of_block};
pub(super) use maps::{MappedKeys, mapped_keys, maps};
pub use tile::WgmmaTile;
pub(super) use tile::{RESERVED, SM_RESERVED, tile_keys};
