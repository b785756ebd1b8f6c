//! Rung 2: a row in the registers of a warp.
//! Changed: a warp takes a row; each lane loads 16 bytes of it at once, as often as the row wants, and keeps them.
//! Removes: the second read, most load and store instructions, and every barrier.
//! Measured: see `LADDER` (generated).
//! Limit now: memory; a lane has one load in flight, so that only many warps hide its latency.

use warpfold_kernels::fold::Extreme;
use warpfold_lang::{Global, Val, block_idx, kernel, lane_id, var, warp_id, when};

use super::RowScale;
use crate::row::{InRegisters, Row, RowElement, Team};

/// Each warp of a block takes a row; a lane keeps `packs` accesses of 16 bytes of it, and what they do not hold is read
/// twice.
#[must_use]
pub fn warp<T: RowElement>(block: u32, packs: u32) -> RowScale<T> {
    let name = format!("scale_warp_{}", T::DTYPE);
    let body =
        move |input: Global<T>, output: Global<T>, scales: Global<f32>, num_rows: Val<u32>, row_len: Val<u32>| {
            let team = Team::Warp;
            let row = block_idx().x * (block / 32) + warp_id();
            when(row.lt(num_rows), || {
                let (input, output) = (Row::of(input, row, row_len), Row::of(output, row, row_len));
                // Largest
                let kept = InRegisters::load(input, team, packs * T::WIDTH, 0.0);
                let largest = var(0.0);
                let see = |x: &Val<f32>| largest.set(x.abs().max_nan(largest.get()));
                kept.values().iter().for_each(see);
                input.each_behind(kept.capacity(), team, |_, x| x.iter().for_each(see));
                let largest = team.fold(Extreme::max(), largest.get());
                // Epilogue
                let divisor = largest.eq(0.0).select(1.0, largest);
                kept.with(kept.values().iter().map(|x| *x / divisor)).store(output);
                input.each_behind(kept.capacity(), team, |i, x| {
                    let quotients: Vec<_> = x.iter().map(|x| *x / divisor).collect();
                    output.set(i, &quotients);
                });
                when(lane_id().eq(0), || scales.at(row).set(largest));
            });
        };
    kernel(name, body).required_block(block)
}
