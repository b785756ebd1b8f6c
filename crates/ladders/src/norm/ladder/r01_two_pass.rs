//! Rung 1: the mean, then the variance.
//! Changed: nothing before it; a block reads its row for the mean, for the distances from it, and for the results.
//! Removes: nothing.
//! Measured: see `LADDER` (generated).
//! Limit now: the row is read three times, and the block waits twice.

use warpfold_kernels::fold::Sum;
use warpfold_lang::{Global, Val, block_idx, kernel, thread_idx, var, when};

use super::LayerNorm;
use crate::row::{Row, RowElement, Team};

/// Each block takes a row.
#[must_use]
pub fn two_pass<T: RowElement>(block: u32) -> LayerNorm<T> {
    let name = format!("norm_two_pass_{}", T::DTYPE);
    let body = move |input: Global<T>,
                     scale: Global<T>,
                     bias: Global<T>,
                     output: Global<T>,
                     means: Global<f32>,
                     rstds: Global<f32>,
                     num_rows: Val<u32>,
                     row_len: Val<u32>,
                     eps: Val<f32>| {
        let team = Team::Block(block);
        let row = block_idx().x;
        when(row.lt(num_rows), || {
            let (input, output) = (Row::of(input, row, row_len), Row::of(output, row, row_len));
            let [scale, bias] = [scale, bias].map(|vector| Row::only(vector, row_len));
            // Mean
            let sum = var(0.0);
            team.each(row_len, |i| sum.set(sum.get() + input.get(i)));
            let mean = team.fold(Sum::new(), sum.get()) / row_len.cast::<f32>();
            // Variance
            let squares = var(0.0);
            team.each(row_len, |i| {
                let distance = input.get(i) - mean;
                squares.set(distance.mul_add(distance, squares.get()));
            });
            let variance = team.fold(Sum::new(), squares.get()) / row_len.cast::<f32>();
            // Epilogue
            let rstd = (variance + eps).sqrt().recip();
            let norm = |i, x: Val<f32>| ((x - mean) * rstd).mul_add(scale.get(i), bias.get(i));
            team.each(row_len, |i| output.set(i, &[norm(i, input.get(i))]));
            when(thread_idx().x.eq(0), || {
                means.at(row).set(mean);
                rstds.at(row).set(rstd);
            });
        });
    };
    kernel(name, body).required_block(block)
}
