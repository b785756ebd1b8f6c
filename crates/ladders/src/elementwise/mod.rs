//! Activations of a vector, element by element: the ladders `relu` and `sigmoid`.
//!
//! Contract: two arrays of `len` elements, aligned to 16 bytes, that do not overlap. Arithmetic is
//! in `f32` whatever memory holds, and the result is rounded to nearest even; the packed rung of
//! `relu` computes on pairs of halves, which is exact.

pub mod relu;
pub mod sigmoid;

mod instance;

pub use relu::RELU;
pub use sigmoid::SIGMOID;

use crate::ladder::elements_of;
use warpfold_device::LaunchConfig;
use warpfold_lang::{Global, Kernel};

/// Parameters of every rung: the input, the output, the length.
pub type Activation<T> = Kernel<(Global<T>, Global<T>, u32)>;

/// Threads per block.
pub const BLOCK: u32 = 256;

/// A launch whose threads take so many elements each.
fn elements_a_thread(size: u64, elements: usize) -> LaunchConfig {
    LaunchConfig::for_elements(elements_of(size).div_ceil(elements).max(1), BLOCK)
}

/// A kernel for one of the halves.
macro_rules! typed_half {
    ($kernel:ident) => {
        |dtype| match dtype {
            warpfold_kernels::Dtype::F16 => warpfold_kernels::AnyKernel::from($kernel::<half::f16>()),
            warpfold_kernels::Dtype::Bf16 => warpfold_kernels::AnyKernel::from($kernel::<half::bf16>()),
            _ => unreachable!("the rung has no kernel for {dtype}"),
        }
    };
}
use typed_half;
