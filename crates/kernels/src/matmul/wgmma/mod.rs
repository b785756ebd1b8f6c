//! GEMM by WGMMA, fed by TMA (sm_90a).

mod consume;
mod dsmem_reduce;
mod kernel;
mod l2_prefetch;
mod maps;
mod produce;
mod rings;
mod source;
mod store;
mod tile;

pub(crate) use kernel::{WgmmaProductConfig, wgmma};
pub(crate) use maps::layout;
pub(super) use maps::{has_kernel, is_for_tma, tma_major};
pub(crate) use source::Im2col;
pub use tile::WgmmaTile;
