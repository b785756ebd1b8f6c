//! GEMM by `mma.sync`, with tiles loaded by `cp.async` and `ldmatrix` (sm_80 on).

mod kernel;
mod main_loop;
mod pieces;
mod ring;
mod tile;

pub(crate) use kernel::{MmaProductConfig, mma};
pub(crate) use main_loop::{StageLoader, WarpTile};
pub(crate) use pieces::Pieces;
pub(crate) use ring::{Ring, Strided};
pub use tile::MmaTile;

use crate::Dtype;

/// Whether there is a kernel for elements of a type.
pub(super) const fn has_kernel(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::F16 | Dtype::Bf16 | Dtype::I8 | Dtype::U8 | Dtype::F32)
}
