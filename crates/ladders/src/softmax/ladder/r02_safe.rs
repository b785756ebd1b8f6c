//! Rung 2: one block per row.
//! Changed: thread `t` of the block takes elements `t`, `t + 256` …; the block folds the largest element, then the sum.
//! Removes: sectors moved for one element, as neighbouring threads read neighbouring elements.
//! Measured: see `LADDER` (generated).
//! Limit now: the row is read three times, and the block waits twice.

use warpfold_kernels::fold::{Extreme, OnlineSoftmax, Sum};
use warpfold_lang::{Global, Val, block_idx, kernel, var, when};

use super::RowSoftmax;
use crate::row::{Row, RowElement, Team};

/// Each block takes a row.
#[must_use]
pub fn safe<T: RowElement>(block: u32) -> RowSoftmax<T> {
    let name = format!("softmax_safe_{}", T::DTYPE);
    let body = move |input: Global<T>, output: Global<T>, num_rows: Val<u32>, row_len: Val<u32>| {
        let team = Team::Block(block);
        let row = block_idx().x;
        when(row.lt(num_rows), || {
            let (input, output) = (Row::of(input, row, row_len), Row::of(output, row, row_len));
            // Largest
            let largest = var(f32::NEG_INFINITY);
            team.each(row_len, |i| largest.set(largest.get().max(input.get(i))));
            let largest = team.fold(Extreme::max().ignoring_nan(), largest.get());
            // Sum
            let shift = OnlineSoftmax::shift(largest);
            let sum = var(0.0);
            team.each(row_len, |i| sum.set(sum.get() + (input.get(i) - shift).exp()));
            let sum = team.fold(Sum::new(), sum.get());
            // Epilogue
            let factor = sum.recip();
            team.each(row_len, |i| output.set(i, &[(input.get(i) - shift).exp() * factor]));
        });
    };
    kernel(name, body).required_block(block)
}
