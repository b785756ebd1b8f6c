//! Rung 10: one launch from input to result.
//! Changed: blocks leave their sums; the one that a counter tells to be the last folds them, in the order of the blocks.
//! Removes: clearing the result before, and the order of time: floats come out the same in every run.
//! Measured: see `LADDER` (generated).
//! Limit now: memory.

use warpfold_kernels::fold::{Sum, fold_block};
use warpfold_lang::{
    Global, Kernel, Order, Val, block_idx, grid_dim, kernel, range, shared_named, sync_threads, thread_idx, var, when,
};

use super::{check_block, rest, whole_len};
use crate::LadderElement;

/// Parameters of the kernel: the input, one word per block, the result, a counter that is zero
/// before and after the launch, the length.
pub type SinglePass<T> = Kernel<(Global<T>, Global<T>, Global<T>, Global<u32>, u32)>;

/// The last block leaves the sum of all.
#[must_use]
pub fn single_pass<T: LadderElement>(block: u32) -> SinglePass<T> {
    let name = format!("reduce_single_pass_{}", T::DTYPE);
    let body = move |input: Global<T>, sums: Global<T>, result: Global<T>, ticket: Global<u32>, len: Val<u32>| {
        // Contract
        check_block(block);
        // Shared-memory map
        let is_last = shared_named::<u32>("is_last", 1);
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
        // Hand over: the release side shows this block's sum to the last block, whose acquire side sees all of them.
        let num_blocks = grid_dim().x;
        when(thread.eq(0), || {
            sums.at(block_idx().x).set(sum);
            // Wraps to zero at the last block: the counter is ready for the next launch.
            let before = ticket.atomic().order(Order::AcqRel).increment_wrapping(num_blocks - 1);
            is_last.set(before.eq(num_blocks - 1).cast::<u32>());
        });
        sync_threads();
        // Last block
        when(is_last.get().ne(0), || {
            let sum = var(T::ZERO);
            range(thread, num_blocks, block, |i| sum.add_assign(sums.at(i).get()));
            let sum = fold_block(Sum::new(), sum.get(), block);
            // Epilogue
            when(thread.eq(0), || result.set(sum));
        });
    };
    kernel(name, body).required_block(block)
}
