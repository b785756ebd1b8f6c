//! Rung 2: mean and variance in one pass.
//! Changed: threads carry count, mean and squared distances, which the block folds as one.
//! Removes: one of three reads of the row, and half of the barriers.
//! Measured: see `LADDER` (generated).
//! Limit now: each load moves one element per thread, and each element costs a division; the row is read twice.

use warpfold_kernels::fold::{Monoid, Welford};
use warpfold_lang::{Global, Val, block_idx, kernel, thread_idx, vars, when};

use super::LayerNorm;
use crate::row::{Row, RowElement, Team};

/// Each block takes a row.
#[must_use]
pub fn welford<T: RowElement>(block: u32) -> LayerNorm<T> {
    let name = format!("norm_welford_{}", T::DTYPE);
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
            // Mean and variance
            let seen = vars(Welford.identity());
            team.each(row_len, |i| seen.set(Welford::push_one(seen.get(), input.get(i))));
            let (mean, variance) = Welford::mean_and_variance(team.fold(Welford, seen.get()));
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
