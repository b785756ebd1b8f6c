//! Rung 1: one output a thread.
//! Changed: the formula as it stands: a thread walks along a row of `a` and down a column of `b`.
//! Removes: nothing.
//! Measured: see `LADDER` (generated).
//! Limit now: `threadIdx.x` is the row, so the lanes of a warp read and store 32 rows, a sector of 32 bytes for 4 of them.

use warpfold_lang::{Global, Val, block_idx, kernel, range, thread_idx, var, when};

use super::{Sgemm, TILE, padded};

/// Each block computes a tile of `c`, one output a thread.
#[must_use]
pub fn naive() -> Sgemm {
    let body = |a: Global<f32>, b: Global<f32>, c: Global<f32>, m: Val<u32>, n: Val<u32>, k: Val<u32>| {
        // Roles
        let (x, y) = (thread_idx().x, thread_idx().y);
        let (row, column) = (block_idx().y * TILE + x, block_idx().x * TILE + y);
        let (row_a, column_b) = (a.at(row * padded(k)), b.at(column));
        when(row.lt(m) & column.lt(n), || {
            let sum = var(0.0_f32);
            // Main loop
            range(0, k, 1, |l| {
                let (a, b) = (row_a.at(l).get(), column_b.at(l * padded(n)).get());
                sum.update(|sum| a.mul_add(b, sum));
            });
            // Epilogue
            c.at(row * padded(n) + column).set(sum.get());
        });
    };
    kernel("sgemm_naive", body).required_block((TILE, TILE))
}
