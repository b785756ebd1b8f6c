//! Rung 4: one cooperative launch.
//! Changed: all blocks are resident, leave their pairs, wait for one another at the grid's barrier, and go on.
//! Removes: the second launch.
//! Measured: see `VECTOR` (generated).
//! Limit now: memory; no more blocks than the device keeps resident, and each waits for the slowest.

use warpfold_kernels::fold::{Monoid, OnlineSoftmax};
use warpfold_lang::{Global, Kernel, Val, block_idx, grid_dim, grid_sync as barrier, kernel, thread_idx, vars, when};

use super::{fold_partials, grid_threads};
use crate::row::{Row, RowElement, Team};

/// Parameters of the kernel: the vector, the largest element of each block, the sum of each block,
/// the word of the barrier, the output, the length.
pub type GridSoftmax<T> = Kernel<(Global<T>, Global<f32>, Global<f32>, Global<u32>, Global<T>, u32)>;

/// Each block leaves what it has found, waits for all, and writes its share.
#[must_use]
pub fn grid_sync<T: RowElement>(block: u32) -> GridSoftmax<T> {
    let name = format!("softmax_grid_sync_{}", T::DTYPE);
    let body = move |input: Global<T>,
                     largest: Global<f32>,
                     sums: Global<f32>,
                     word: Global<u32>,
                     output: Global<T>,
                     len: Val<u32>| {
        let (input, output) = (Row::only(input, len), Row::only(output, len));
        let thread = block_idx().x * block + thread_idx().x;
        // Largest and sum
        let seen = vars(OnlineSoftmax.identity());
        input.each_group(thread, grid_threads(block), |_, x| seen.set(OnlineSoftmax::push_all(seen.get(), x)));
        let (m, sum) = Team::Block(block).fold(OnlineSoftmax, seen.get());
        // By two warps side by side: the barrier shows what any thread of a block has written.
        when(thread_idx().x.eq(0), || largest.at(block_idx().x).set(m));
        when(thread_idx().x.eq(32), || sums.at(block_idx().x).set(sum));
        barrier(word);
        let (largest, sum) = fold_partials(Team::Block(block), largest, sums, grid_dim().x);
        // Epilogue
        let (shift, factor) = (OnlineSoftmax::shift(largest), sum.recip());
        input.each_group(thread, grid_threads(block), |i, x| {
            let results: Vec<_> = x.iter().map(|x| (*x - shift).exp() * factor).collect();
            output.set(i, &results);
        });
    };
    kernel(name, body).required_block(block)
}
