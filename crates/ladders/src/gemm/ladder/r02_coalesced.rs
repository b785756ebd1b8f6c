//! Rung 2: neighbouring threads in neighbouring columns.
//! Changed: `threadIdx.x` is the column: a warp reads one element of `a` and a row of `b`, and stores a row of `c`.
//! Removes: 31 of 32 sectors of `a` and `c` that a warp touches in one access.
//! Measured: see `LADDER` (generated).
//! Limit now: each multiply-add comes with two loads of global memory.

use warpfold_lang::{Global, Val, block_idx, kernel, range, thread_idx, var, when};

use super::{Sgemm, TILE, padded};

/// Each block computes a tile of `c`, one output a thread.
#[must_use]
pub fn coalesced() -> Sgemm {
    let body = |a: Global<f32>, b: Global<f32>, c: Global<f32>, m: Val<u32>, n: Val<u32>, k: Val<u32>| {
        // Roles
        let (x, y) = (thread_idx().x, thread_idx().y);
        let (row, column) = (block_idx().y * TILE + y, block_idx().x * TILE + x);
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
    kernel("sgemm_coalesced", body).required_block((TILE, TILE))
}
