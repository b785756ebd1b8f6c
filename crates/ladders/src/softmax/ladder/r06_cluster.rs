//! Rung 6: a row in the registers of a cluster.
//! Changed: the blocks of a cluster share a row, and fold through one another's shared memory (sm_90).
//! Removes: the second read of rows that are too long for a block, and multiprocessors that have no row where rows are few.
//! Measured: see `LADDER` (generated).
//! Limit now: memory for long rows; of a row that one block holds, two have half as much to do beside as many barriers.

use warpfold_kernels::fold::OnlineSoftmax;
use warpfold_lang::{Global, Val, block_idx, kernel, vars, when};

use super::RowSoftmax;
use crate::row::{InRegisters, Row, RowElement, Team};

/// Each cluster of `blocks` blocks takes a row, and holds `held` elements of it a thread. The grid has whole clusters.
#[must_use]
pub fn cluster<T: RowElement>(block: u32, blocks: u32, held: u32) -> RowSoftmax<T> {
    let name = format!("softmax_cluster_{}", T::DTYPE);
    let body = move |input: Global<T>, output: Global<T>, num_rows: Val<u32>, row_len: Val<u32>| {
        let team = Team::Cluster { blocks, threads: block };
        team.begin();
        let row = block_idx().x / blocks;
        when(row.lt(num_rows), || {
            let (input, output) = (Row::of(input, row, row_len), Row::of(output, row, row_len));
            // Largest and sum
            let kept = InRegisters::load(input, team, held, f32::NEG_INFINITY);
            let (first, exponentials) = OnlineSoftmax::lift_all(kept.values());
            let seen = vars(first);
            input.each_behind(kept.capacity(), team, |_, x| seen.set(OnlineSoftmax::push_all(seen.get(), x)));
            team.gather();
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
    kernel(name, body).required_block(block).cluster(blocks)
}
