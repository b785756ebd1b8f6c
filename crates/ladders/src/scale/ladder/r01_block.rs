//! Rung 1: one block per row.
//! Changed: nothing before it; the block folds the largest magnitude, then reads the row again to divide it.
//! Removes: nothing.
//! Measured: see `LADDER` (generated).
//! Limit now: two reads; each load moves one element per thread, and a short row ends before the barriers have paid.

use warpfold_kernels::fold::Extreme;
use warpfold_lang::{Global, Val, block_idx, kernel, thread_idx, var, when};

use super::RowScale;
use crate::row::{Row, RowElement, Team};

/// Each block takes a row.
#[must_use]
pub fn block<T: RowElement>(block: u32) -> RowScale<T> {
    let name = format!("scale_block_{}", T::DTYPE);
    let body =
        move |input: Global<T>, output: Global<T>, scales: Global<f32>, num_rows: Val<u32>, row_len: Val<u32>| {
            let team = Team::Block(block);
            let row = block_idx().x;
            when(row.lt(num_rows), || {
                let (input, output) = (Row::of(input, row, row_len), Row::of(output, row, row_len));
                // Largest
                let largest = var(0.0);
                team.each(row_len, |i| largest.set(input.get(i).abs().max_nan(largest.get())));
                let largest = team.fold(Extreme::max(), largest.get());
                // Epilogue
                let divisor = largest.eq(0.0).select(1.0, largest);
                team.each(row_len, |i| output.set(i, &[input.get(i) / divisor]));
                when(thread_idx().x.eq(0), || scales.at(row).set(largest));
            });
        };
    kernel(name, body).required_block(block)
}
