//! Rung 10: the library's kernel.
//! Changed: keys are folded in segments, each by itself, so that no bit of a row depends on how its keys are split.
//! Removes: what this problem does not need, but others: one kernel takes every shape, stride, mask and page.
//! Measured: see `LADDER` (generated).
//! Limit now: exponentials, and the power that tensor cores may draw.

use warpfold_device::LaunchConfig;
use warpfold_kernels::{AnyKernel, Dtype};

use crate::attention::shipped::{Of, kernel, plan};
use crate::ladder::Heads;

/// The kernel that a plan takes for an H200.
#[must_use]
pub fn shipped(dtype: Dtype, size: u64) -> AnyKernel {
    kernel(&plan(Of::Prefill, dtype, Heads::unpack(size)))
}

/// Its launch.
#[must_use]
pub fn shipped_launch(size: u64) -> LaunchConfig {
    plan(Of::Prefill, Dtype::Bf16, Heads::unpack(size)).steps[0].config
}
