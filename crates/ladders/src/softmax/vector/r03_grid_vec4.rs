//! Rung 3: accesses of 16 bytes.
//! Changed: each thread takes neighbours at once; what is left over at the end is taken one by one.
//! Removes: most load and store instructions, with their addresses, and of four or eight rescalings all but one.
//! Measured: see `VECTOR` (generated).
//! Limit now: memory; the vector is read twice, as no grid could keep it.

use warpfold_kernels::fold::{Monoid, OnlineSoftmax};
use warpfold_lang::{Global, Val, block_idx, kernel, thread_idx, vars, when};

use super::{Partials, VectorSoftmax, fold_partials, grid_threads};
use crate::row::{Row, RowElement, Team};

/// Each block leaves the largest of its elements, and their sum of exponentials.
#[must_use]
pub fn grid_vec4_partials<T: RowElement>(block: u32) -> Partials<T> {
    let name = format!("softmax_grid_vec4_partials_{}", T::DTYPE);
    let body = move |input: Global<T>, largest: Global<f32>, sums: Global<f32>, len: Val<u32>| {
        let input = Row::only(input, len);
        let thread = block_idx().x * block + thread_idx().x;
        // Largest and sum
        let seen = vars(OnlineSoftmax.identity());
        input.each_group(thread, grid_threads(block), |_, x| seen.set(OnlineSoftmax::push_all(seen.get(), x)));
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
pub fn grid_vec4<T: RowElement>(block: u32) -> VectorSoftmax<T> {
    let name = format!("softmax_grid_vec4_{}", T::DTYPE);
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
        input.each_group(thread, grid_threads(block), |i, x| {
            let results: Vec<_> = x.iter().map(|x| (*x - shift).exp() * factor).collect();
            output.set(i, &results);
        });
    };
    kernel(name, body).required_block(block)
}
