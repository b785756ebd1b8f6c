//! Rung 4: a row in the registers of a warp.
//! Changed: a warp takes a row; its lanes load what they can hold by 16 bytes, and keep it, as exponentials.
//! Removes: the second read of what is held, three of four load instructions, and every barrier.
//! Measured: see `LADDER` (generated).
//! Limit now: of a longer row than the lanes hold, the rest is read twice, by 32 threads.

use warpfold_kernels::fold::OnlineSoftmax;
use warpfold_lang::{Global, Val, block_idx, kernel, vars, warp_id, when};

use super::RowSoftmax;
use crate::row::{InRegisters, Row, RowElement, Team};

/// Each warp of a block takes a row, and holds `held` elements of it a lane.
#[must_use]
pub fn warp<T: RowElement>(block: u32, held: u32) -> RowSoftmax<T> {
    let name = format!("softmax_warp_{}", T::DTYPE);
    let body = move |input: Global<T>, output: Global<T>, num_rows: Val<u32>, row_len: Val<u32>| {
        let team = Team::Warp;
        let row = block_idx().x * (block / 32) + warp_id();
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
