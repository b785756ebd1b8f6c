//! Rung 3: tiles in shared memory.
//! Changed: a block brings a tile of `a` and one of `b` to shared memory, and every thread uses a row and a column of them.
//! Removes: 31 of 32 loads of global memory.
//! Measured: see `LADDER` (generated).
//! Limit now: each multiply-add comes with two loads of shared memory.

use warpfold_lang::{Global, Val, block_idx, kernel, range, shared_named, sync_threads, thread_idx, var, when};

use super::{Sgemm, TILE, padded};

/// Each block computes a tile of `c`, step by step along `k`, from a tile of `a` and one of `b`.
#[must_use]
pub fn shared() -> Sgemm {
    let body = |a: Global<f32>, b: Global<f32>, c: Global<f32>, m: Val<u32>, n: Val<u32>, k: Val<u32>| {
        // Shared-memory map
        let tile_a = shared_named::<f32>("tile_a", TILE * TILE);
        let tile_b = shared_named::<f32>("tile_b", TILE * TILE);
        // Roles
        let (x, y) = (thread_idx().x, thread_idx().y);
        let (row, column) = (block_idx().y * TILE + y, block_idx().x * TILE + x);
        let (row_a, column_b) = (tile_a.at(y * TILE), tile_b.at(x));
        let sum = var(0.0_f32);
        // Main loop
        range(0, k, TILE, |step| {
            let (l_a, l_b) = (step + x, step + y);
            let value_a = a.at(row * padded(k) + l_a).get_or(0.0, row.lt(m) & l_a.lt(k));
            let value_b = b.at(l_b * padded(n) + column).get_or(0.0, l_b.lt(k) & column.lt(n));
            tile_a.at(y * TILE + x).set(value_a);
            tile_b.at(y * TILE + x).set(value_b);
            sync_threads();
            let mut acc = sum.get();
            for l in 0..TILE {
                acc = row_a.at(l).get().mul_add(column_b.at(l * TILE).get(), acc);
            }
            sum.set(acc);
            sync_threads();
        });
        // Epilogue
        when(row.lt(m) & column.lt(n), || c.at(row * padded(n) + column).set(sum.get()));
    };
    kernel("sgemm_shared", body).required_block((TILE, TILE))
}
