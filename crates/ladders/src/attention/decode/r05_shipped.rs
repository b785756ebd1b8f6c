//! Rung 5: the library's kernel.
//! Changed: the heads of a group are rows of a tile for tensor cores, TMA reads pages, and blocks draw parts.
//! Removes: the threads that copied keys and multiplied them one by one.
//! Measured: see `LADDER` (generated).
//! Limit now: memory, where there are enough keys; else the time from the first load to the last store.

use warpfold_device::LaunchConfig;
use warpfold_kernels::{AnyKernel, Dtype};

use crate::attention::shipped::{Of, kernel, pages, plan};
use crate::ladder::Heads;

/// The kernel that a plan takes for an H200.
#[must_use]
pub fn shipped(dtype: Dtype, size: u64) -> AnyKernel {
    let heads = Heads::unpack(size);
    kernel(&plan(Of::Decode(pages(heads)), dtype, heads))
}

/// Its launch.
#[must_use]
pub fn shipped_launch(size: u64) -> LaunchConfig {
    let heads = Heads::unpack(size);
    plan(Of::Decode(pages(heads)), Dtype::Bf16, heads).steps[0].config
}
