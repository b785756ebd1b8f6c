//! Rung 3: one launch from vectors to result.
//! Changed: a fixed number of blocks walk over the vectors; the one that a counter tells to be the last folds all sums.
//! Removes: clearing the result before, most folds and all atomics but one per block, and the order of time.
//! Measured: see `LADDER` (generated).
//! Limit now: memory.

use warpfold_kernels::fold::{Sum, fold_block};
use warpfold_lang::{
    Global, Kernel, Order, Val, block_idx, grid_dim, kernel, range, shared_named, sync_threads, thread_idx, var, when,
};

use super::{BLOCK, product, products};

/// Parameters of the kernel: two vectors, one word per block, the result, a counter that is zero
/// before and after the launch, the length.
pub type SinglePass = Kernel<(Global<f32>, Global<f32>, Global<f32>, Global<f32>, Global<u32>, u32)>;

/// The last block leaves the sum of all.
#[must_use]
pub fn single_pass() -> SinglePass {
    let body =
        |a: Global<f32>, b: Global<f32>, sums: Global<f32>, result: Global<f32>, ticket: Global<u32>, len: Val<u32>| {
            // Shared-memory map
            let is_last = shared_named::<u32>("is_last", 1);
            // Load
            let thread = thread_idx().x;
            let i = block_idx().x * BLOCK + thread;
            let whole_len = len & !3;
            let sum = var(product(a, b, whole_len + i, len));
            range(i * 4, whole_len, grid_dim().x * (4 * BLOCK), |i| {
                sum.set(products(a.at(i).get_vec::<4>(), b.at(i).get_vec::<4>(), sum.get()));
            });
            // Fold
            let sum = fold_block(Sum::new(), sum.get(), BLOCK);
            // Hand over: the release side shows this block's sum to the last block, whose acquire side sees all of them.
            let num_blocks = grid_dim().x;
            when(thread.eq(0), || {
                sums.at(block_idx().x).set(sum);
                let before = ticket.atomic().order(Order::AcqRel).increment_wrapping(num_blocks - 1);
                is_last.set(before.eq(num_blocks - 1).cast::<u32>());
            });
            sync_threads();
            // Last block
            when(is_last.get().ne(0), || {
                let sum = var(0.0_f32);
                range(thread, num_blocks, BLOCK, |i| sum.add_assign(sums.at(i).get()));
                let sum = fold_block(Sum::new(), sum.get(), BLOCK);
                // Epilogue
                when(thread.eq(0), || result.set(sum));
            });
        };
    kernel("dot_single_pass", body).required_block(BLOCK)
}
