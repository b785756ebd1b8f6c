//! Rung 1: one product per thread.
//! Changed: nothing before it; blocks fold their products by shuffles, and add the sums by atomics.
//! Removes: nothing.
//! Measured: see `LADDER` (generated).
//! Limit now: each load moves 4 bytes per thread, and every 256 products cost a fold and an atomic.

use warpfold_kernels::fold::{Sum, fold_block};
use warpfold_lang::{Global, Val, block_idx, kernel, thread_idx, when};

use super::{BLOCK, Dot, product};

/// The blocks add to a result that was zero.
#[must_use]
pub fn plain() -> Dot {
    let body = |a: Global<f32>, b: Global<f32>, result: Global<f32>, len: Val<u32>| {
        // Load
        let thread = thread_idx().x;
        let i = block_idx().x * BLOCK + thread;
        let sum = product(a, b, i, len);
        // Fold
        let sum = fold_block(Sum::new(), sum, BLOCK);
        // Epilogue
        when(thread.eq(0), || result.reduction().add(sum));
    };
    kernel("dot_plain", body).required_block(BLOCK)
}
