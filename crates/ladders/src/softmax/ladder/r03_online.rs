//! Rung 3: the largest element and the sum in one pass.
//! Changed: threads carry both, and rescale the sum when they meet a larger element; the block folds pairs.
//! Removes: one of three reads of the row, and half of the barriers.
//! Measured: see `LADDER` (generated).
//! Limit now: each load moves one element per thread; the second read has to come from the L2 to be cheap.

use warpfold_kernels::fold::{Monoid, OnlineSoftmax};
use warpfold_lang::{Global, Val, block_idx, kernel, vars, when};

use super::RowSoftmax;
use crate::row::{Row, RowElement, Team};

/// Each block takes a row.
#[must_use]
pub fn online<T: RowElement>(block: u32) -> RowSoftmax<T> {
    let name = format!("softmax_online_{}", T::DTYPE);
    let body = move |input: Global<T>, output: Global<T>, num_rows: Val<u32>, row_len: Val<u32>| {
        let team = Team::Block(block);
        let row = block_idx().x;
        when(row.lt(num_rows), || {
            let (input, output) = (Row::of(input, row, row_len), Row::of(output, row, row_len));
            // Largest and sum
            let seen = vars(OnlineSoftmax.identity());
            team.each(row_len, |i| seen.set(OnlineSoftmax::push_all(seen.get(), &[input.get(i)])));
            let (largest, sum) = team.fold(OnlineSoftmax, seen.get());
            // Epilogue
            let (shift, factor) = (OnlineSoftmax::shift(largest), sum.recip());
            team.each(row_len, |i| output.set(i, &[(input.get(i) - shift).exp() * factor]));
        });
    };
    kernel(name, body).required_block(block)
}
