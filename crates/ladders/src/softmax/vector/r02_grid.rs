//! Rung 2: two launches, of which the second begins when the first is over.
//! Changed: the first launch leaves one pair per block, the largest element and the sum; the second folds those.
//! Removes: the race: nobody reads a sum that is not whole; and overflow, as the largest element is known.
//! Measured: see `VECTOR` (generated).
//! Limit now: each load and each store moves one element per thread.

use warpfold_kernels::fold::{Monoid, OnlineSoftmax};
use warpfold_lang::{Global, Val, block_idx, kernel, range, thread_idx, vars, when};

use super::{Partials, VectorSoftmax, fold_partials, grid_threads};
use crate::row::{Row, RowElement, Team};

/// Each block leaves the largest of its elements, and their sum of exponentials.
#[must_use]
pub fn grid_partials<T: RowElement>(block: u32) -> Partials<T> {
    let name = format!("softmax_grid_partials_{}", T::DTYPE);
    let body = move |input: Global<T>, largest: Global<f32>, sums: Global<f32>, len: Val<u32>| {
        let input = Row::only(input, len);
        let thread = block_idx().x * block + thread_idx().x;
        // Largest and sum
        let seen = vars(OnlineSoftmax.identity());
        range(thread, len, grid_threads(block), |i| seen.set(OnlineSoftmax::push_all(seen.get(), &[input.get(i)])));
        let (m, sum) = Team::Block(block).fold(OnlineSoftmax, seen.get());
        // Epilogue
        when(thread_idx().x.eq(0), || {
            largest.at(block_idx().x).set(m);
            sums.at(block_idx().x).set(sum);
        });
    };
    kernel(name, body).required_block(block)
}

/// Each block folds what all have left, and writes its share.
#[must_use]
pub fn grid<T: RowElement>(block: u32) -> VectorSoftmax<T> {
    let name = format!("softmax_grid_{}", T::DTYPE);
    let body = move |input: Global<T>,
                     largest: Global<f32>,
                     sums: Global<f32>,
                     num_partials: Val<u32>,
                     output: Global<T>,
                     len: Val<u32>| {
        let (input, output) = (Row::only(input, len), Row::only(output, len));
        let thread = block_idx().x * block + thread_idx().x;
        // Largest and sum
        let (largest, sum) = fold_partials(Team::Block(block), largest, sums, num_partials);
        // Epilogue
        let (shift, factor) = (OnlineSoftmax::shift(largest), sum.recip());
        range(thread, len, grid_threads(block), |i| output.set(i, &[(input.get(i) - shift).exp() * factor]));
    };
    kernel(name, body).required_block(block)
}
