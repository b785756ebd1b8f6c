//! Rung 7: the lanes of a warp read one another's registers.
//! Changed: warps fold by shuffles and leave one shared word each; one thread adds the block's sum to the result.
//! Removes: nearly all of shared memory, all barriers but one, and the host's addition.
//! Measured: see `LADDER` (generated).
//! Limit now: the blocks' atomics queue at one word, in the order of time; each load moves 4 bytes per thread.

use warpfold_kernels::fold::{Sum, fold_block};
use warpfold_lang::{Global, Val, block_idx, kernel, thread_idx, when};

use super::{PartialSums, check_block};
use crate::LadderElement;

/// The blocks add to a result that was zero.
#[must_use]
pub fn shuffle<T: LadderElement>(block: u32) -> PartialSums<T> {
    let name = format!("reduce_shuffle_{}", T::DTYPE);
    let body = move |input: Global<T>, result: Global<T>, len: Val<u32>| {
        // Contract
        check_block(block);
        // Load
        let thread = thread_idx().x;
        let i = block_idx().x * (2 * block) + thread;
        let load = |i: Val<u32>| input.at(i).get_or(T::ZERO, i.lt(len));
        let sum = load(i) + load(i + block);
        // Fold
        let sum = fold_block(Sum::new(), sum, block);
        // Epilogue
        when(thread.eq(0), || result.reduction().add(sum));
    };
    kernel(name, body).required_block(block)
}
