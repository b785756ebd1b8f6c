//! Rung 8: loads of 16 bytes.
//! Changed: each thread loads four neighbours at once, instead of two words a block apart; up to three are left over.
//! Removes: three of four load instructions, with their addresses and bound checks, and half of the blocks.
//! Measured: see `LADDER` (generated).
//! Limit now: a thread lives for one load; blocks come and go, each with its barrier and its atomic.

use warpfold_kernels::fold::{Sum, fold_block};
use warpfold_lang::{Global, Val, block_idx, kernel, thread_idx, when};

use super::{PartialSums, check_block, rest, whole_len};
use crate::LadderElement;

/// The blocks add to a result that was zero.
#[must_use]
pub fn vec4<T: LadderElement>(block: u32) -> PartialSums<T> {
    let name = format!("reduce_vec4_{}", T::DTYPE);
    let body = move |input: Global<T>, result: Global<T>, len: Val<u32>| {
        // Contract
        check_block(block);
        // Load
        let thread = thread_idx().x;
        let i = block_idx().x * block + thread;
        let [a, b, c, d] = input.at(i * 4).get_vec_or::<4>(T::ZERO, (i * 4).lt(whole_len(len)));
        let sum = (a + b) + (c + d) + rest(input, i, len);
        // Fold
        let sum = fold_block(Sum::new(), sum, block);
        // Epilogue
        when(thread.eq(0), || result.reduction().add(sum));
    };
    kernel(name, body).required_block(block)
}
