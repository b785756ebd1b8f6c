//! Rung 1: one thread per row.
//! Changed: nothing before it; a thread reads its row for the largest element, for the sum, and for the results.
//! Removes: nothing.
//! Measured: see `LADDER` (generated).
//! Limit now: neighbouring threads read a row apart from one another, so that each moves a sector for one element.

use warpfold_kernels::fold::OnlineSoftmax;
use warpfold_lang::{Global, Val, block_dim, block_idx, kernel, range, thread_idx, var, when};

use super::RowSoftmax;
use crate::row::{Row, RowElement};

/// Each thread takes a row.
#[must_use]
pub fn three_pass<T: RowElement>() -> RowSoftmax<T> {
    let name = format!("softmax_three_pass_{}", T::DTYPE);
    kernel(name, |input: Global<T>, output: Global<T>, num_rows: Val<u32>, row_len: Val<u32>| {
        let row = block_idx().x * block_dim().x + thread_idx().x;
        when(row.lt(num_rows), || {
            let (input, output) = (Row::of(input, row, row_len), Row::of(output, row, row_len));
            // Largest
            let largest = var(f32::NEG_INFINITY);
            range(0, row_len, 1, |i| largest.set(largest.get().max(input.get(i))));
            // Sum
            let shift = OnlineSoftmax::shift(largest.get());
            let sum = var(0.0);
            range(0, row_len, 1, |i| sum.set(sum.get() + (input.get(i) - shift).exp()));
            // Epilogue
            let factor = sum.get().recip();
            range(0, row_len, 1, |i| output.set(i, &[(input.get(i) - shift).exp() * factor]));
        });
    })
}
