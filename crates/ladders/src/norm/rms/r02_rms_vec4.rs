//! Rung 2: a row in the registers of a block.
//! Changed: threads load 16 bytes at once and keep them, the scale as well.
//! Removes: the second read of rows that fit, and most load and store instructions.
//! Measured: see `RMS` (generated).
//! Limit now: memory, for rows that fit; one barrier for the fold and one for its result.

use warpfold_kernels::fold::Sum;
use warpfold_lang::{Global, Val, block_idx, kernel, thread_idx, var, when};

use super::RmsNorm;
use crate::row::{InRegisters, Row, RowElement, Team};

/// Each block takes a row, and holds `held` elements of it a thread.
#[must_use]
pub fn rms_vec4<T: RowElement>(block: u32, held: u32) -> RmsNorm<T> {
    let name = format!("norm_rms_vec4_{}", T::DTYPE);
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
            let [kept, scales] = [input, scale].map(|row| InRegisters::load(row, team, held, 0.0));
            let squares = var(0.0);
            let see = |x: &Val<f32>| squares.set(x.mul_add(*x, squares.get()));
            kept.values().iter().for_each(see);
            input.each_behind(kept.capacity(), team, |_, x| x.iter().for_each(see));
            let square = team.fold(Sum::new(), squares.get()) / row_len.cast::<f32>();
            // Epilogue
            let rstd = (square + eps).sqrt().recip();
            let norm = |x: &[Val<f32>], scale: &[Val<f32>]| -> Vec<_> {
                x.iter().zip(scale).map(|(x, scale)| *x * rstd * *scale).collect()
            };
            kept.with(norm(kept.values(), scales.values())).store(output);
            input.each_behind(kept.capacity(), team, |i, x| output.set(i, &norm(x, &scale.group(i, x.len()))));
            when(thread_idx().x.eq(0), || rstds.at(row).set(rstd));
        });
    };
    kernel(name, body).required_block(block)
}
