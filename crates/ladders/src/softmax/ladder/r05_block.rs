//! Rung 5: a row in the registers of a block.
//! Changed: a block takes a row, and holds four times as much of it as a warp does, with half of the registers per thread.
//! Removes: the second read of rows that are too long for a warp.
//! Measured: see `LADDER` (generated).
//! Limit now: memory, for rows that fit; one barrier for the fold and one for its result.

use warpfold_kernels::fold::OnlineSoftmax;
use warpfold_lang::{Global, Val, block_idx, kernel, vars, when};

use super::RowSoftmax;
use crate::row::{InRegisters, Row, RowElement, Team};

/// Each block takes a row, and holds `held` elements of it a thread.
#[must_use]
pub fn block<T: RowElement>(block: u32, held: u32) -> RowSoftmax<T> {
    let name = format!("softmax_block_{}", T::DTYPE);
    let body = move |input: Global<T>, output: Global<T>, num_rows: Val<u32>, row_len: Val<u32>| {
        let team = Team::Block(block);
        let row = block_idx().x;
        when(row.lt(num_rows), || {
            let (input, output) = (Row::of(input, row, row_len), Row::of(output, row, row_len));
            // Largest and sum
            let kept = InRegisters::load(input, team, held, f32::NEG_INFINITY);
            let (first, exponentials) = OnlineSoftmax::lift_all(kept.values());
            let seen = vars(first);
            input.each_behind(kept.capacity(), team, |_, x| seen.set(OnlineSoftmax::push_all(seen.get(), x)));
            let (largest, sum) = team.fold(OnlineSoftmax, seen.get());
            // Epilogue
            let (shift, factor) = (OnlineSoftmax::shift(largest), sum.recip());
            let own = (first.0 - shift).exp() * factor;
            kept.with(exponentials.iter().map(|exponential| *exponential * own)).store(output);
            input.each_behind(kept.capacity(), team, |i, x| {
                let results: Vec<_> = x.iter().map(|x| (*x - shift).exp() * factor).collect();
                output.set(i, &results);
            });
        });
    };
    kernel(name, body).required_block(block)
}
