//! Rung 1: one block per row.
//! Changed: nothing before it; a block reads its row for the sum of squares, and again for the results.
//! Removes: nothing.
//! Measured: see `RMS` (generated).
//! Limit now: each load moves one element per thread; the row is read twice.

use warpfold_kernels::fold::Sum;
use warpfold_lang::{Global, Val, block_idx, kernel, thread_idx, var, when};

use super::RmsNorm;
use crate::row::{Row, RowElement, Team};

/// Each block takes a row.
#[must_use]
pub fn rms<T: RowElement>(block: u32) -> RmsNorm<T> {
    let name = format!("norm_rms_{}", T::DTYPE);
    let body = move |input: Global<T>,
                     scale: Global<T>,
                     output: Global<T>,
                     rstds: Global<f32>,
                     num_rows: Val<u32>,
                     row_len: Val<u32>,
                     eps: Val<f32>| {
        let team = Team::Block(block);
        let row = block_idx().x;
        when(row.lt(num_rows), || {
            let (input, output) = (Row::of(input, row, row_len), Row::of(output, row, row_len));
            let scale = Row::only(scale, row_len);
            // Sum of squares
            let squares = var(0.0);
            team.each(row_len, |i| {
                let x = input.get(i);
                squares.set(x.mul_add(x, squares.get()));
            });
            let square = team.fold(Sum::new(), squares.get()) / row_len.cast::<f32>();
            // Epilogue
            let rstd = (square + eps).sqrt().recip();
            team.each(row_len, |i| output.set(i, &[input.get(i) * rstd * scale.get(i)]));
            when(thread_idx().x.eq(0), || rstds.at(row).set(rstd));
        });
    };
    kernel(name, body).required_block(block)
}
