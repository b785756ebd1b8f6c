//! Rung 3: a row in the registers of a block.
//! Changed: threads load 16 bytes at once and keep them, scale and bias as well; each finds its moments in registers.
//! Removes: the second read of rows that fit, most load and store instructions, and the division for each element.
//! Measured: see `LADDER` (generated).
//! Limit now: memory, for rows that fit; one barrier for the fold and one for its result.

use warpfold_kernels::fold::Welford;
use warpfold_lang::{Global, Val, block_idx, kernel, thread_idx, vars, when};

use super::LayerNorm;
use crate::row::{InRegisters, Row, RowElement, Team};

/// Each block takes a row, and holds `held` elements of it a thread.
#[must_use]
pub fn vec4<T: RowElement>(block: u32, held: u32) -> LayerNorm<T> {
    let name = format!("norm_vec4_{}", T::DTYPE);
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
            let kept = InRegisters::load(input, team, held, 0.0);
            let [scales, biases] = [scale, bias].map(|vector| InRegisters::load(vector, team, held, 0.0));
            let seen = vars(Welford::lift_all(kept.values(), kept.count(), |n| kept.has(n)));
            input.each_behind(kept.capacity(), team, |_, x| {
                x.iter().for_each(|x| seen.set(Welford::push_one(seen.get(), *x)));
            });
            let (mean, variance) = Welford::mean_and_variance(team.fold(Welford, seen.get()));
            // Epilogue
            let rstd = (variance + eps).sqrt().recip();
            let norm = |x: &[Val<f32>], scale: &[Val<f32>], bias: &[Val<f32>]| -> Vec<_> {
                (0..x.len()).map(|n| ((x[n] - mean) * rstd).mul_add(scale[n], bias[n])).collect()
            };
            kept.with(norm(kept.values(), scales.values(), biases.values())).store(output);
            input.each_behind(kept.capacity(), team, |i, x| {
                output.set(i, &norm(x, &scale.group(i, x.len()), &bias.group(i, x.len())));
            });
            when(thread_idx().x.eq(0), || {
                means.at(row).set(mean);
                rstds.at(row).set(rstd);
            });
        });
    };
    kernel(name, body).required_block(block)
}
