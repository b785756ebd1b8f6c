//! Rung 9: several loads per thread before any cooperation.
//! Changed: a grid of fixed size walks over the elements; each thread adds what it meets.
//! Removes: the fold, barrier and atomic of all blocks but 1,024.
//! Measured: see `LADDER` (generated).
//! Limit now: memory; but the result has to be cleared first, and floats come out in the order of time.

use warpfold_kernels::fold::{Sum, fold_block};
use warpfold_lang::{Global, Val, block_idx, grid_dim, kernel, range, thread_idx, var, when};

use super::{PartialSums, check_block, rest, whole_len};
use crate::LadderElement;

/// The blocks add to a result that was zero.
#[must_use]
pub fn grid_stride<T: LadderElement>(block: u32) -> PartialSums<T> {
    let name = format!("reduce_grid_stride_{}", T::DTYPE);
    let body = move |input: Global<T>, result: Global<T>, len: Val<u32>| {
        // Contract
        check_block(block);
        // Load
        let thread = thread_idx().x;
        let i = block_idx().x * block + thread;
        let sum = var(rest(input, i, len));
        range(i * 4, whole_len(len), grid_dim().x * (4 * block), |i| {
            let [a, b, c, d] = input.at(i).get_vec::<4>();
            sum.add_assign((a + b) + (c + d));
        });
        // Fold
        let sum = fold_block(Sum::new(), sum.get(), block);
        // Epilogue
        when(thread.eq(0), || result.reduction().add(sum));
    };
    kernel(name, body).required_block(block)
}
