//! Rung 2: loads of 16 bytes.
//! Changed: each thread takes four neighbours of both vectors at once; up to three pairs are left over.
//! Removes: most load instructions, and three of four blocks with their folds and atomics.
//! Measured: see `LADDER` (generated).
//! Limit now: a thread lives for one load; blocks come and go, each with its barrier and its atomic.

use warpfold_kernels::fold::{Sum, fold_block};
use warpfold_lang::{Global, Val, block_idx, kernel, thread_idx, when};

use super::{BLOCK, Dot, product, products};

/// The blocks add to a result that was zero.
#[must_use]
pub fn vec4() -> Dot {
    let body = |a: Global<f32>, b: Global<f32>, result: Global<f32>, len: Val<u32>| {
        // Load
        let thread = thread_idx().x;
        let i = block_idx().x * BLOCK + thread;
        let whole_len = len & !3;
        let load = |vector: Global<f32>| vector.at(i * 4).get_vec_or::<4>(0.0, (i * 4).lt(whole_len));
        let sum = products(load(a), load(b), product(a, b, whole_len + i, len));
        // Fold
        let sum = fold_block(Sum::new(), sum, BLOCK);
        // Epilogue
        when(thread.eq(0), || result.reduction().add(sum));
    };
    kernel("dot_vec4", body).required_block(BLOCK)
}
