//! Rung 4: eight outputs per thread.
//! Changed: tiles of 64 x 64; a thread takes eight rows of one column, and an element of `b` serves all eight.
//! Removes: nearly half of the shared loads for a multiply-add, and half of the bytes from global memory.
//! Measured: see `LADDER` (generated).
//! Limit now: each multiply-add still comes with a load of `a`.

use warpfold_lang::{Global, Val, block_idx, kernel, range, shared_named, sync_threads, thread_idx, vars};

use super::{Sgemm, TILE_1D, padded};

/// Each block computes a tile of `c`, step by step along `k`, from a tile of `a` and one of `b`.
#[must_use]
pub fn tile_1d() -> Sgemm {
    let body = |a: Global<f32>, b: Global<f32>, c: Global<f32>, m: Val<u32>, n: Val<u32>, k: Val<u32>| {
        let (block, depth) = (TILE_1D.block, TILE_1D.depth);
        // Shared-memory map
        let tile_a = shared_named::<f32>("tile_a", block * depth);
        let tile_b = shared_named::<f32>("tile_b", depth * block);
        // Roles
        let thread = thread_idx().x;
        let (first_row, first_column) = (block_idx().y * block, block_idx().x * block);
        let (row_a, l_a) = (thread / depth, thread % depth);
        let (l_b, column_b) = (thread / block, thread % block);
        let (my_row, my_column) = (thread / block * 8, thread % block);
        let sums = vars([Val::constant(0.0_f32); 8]);
        // Main loop
        range(0, k, depth, |step| {
            let (row, l) = (first_row + row_a, step + l_a);
            tile_a.at(thread).set(a.at(row * padded(k) + l).get_or(0.0, row.lt(m) & l.lt(k)));
            let (l, column) = (step + l_b, first_column + column_b);
            tile_b.at(thread).set(b.at(l * padded(n) + column).get_or(0.0, l.lt(k) & column.lt(n)));
            sync_threads();
            let (rows_of_a, column_of_b) = (tile_a.at(my_row * depth), tile_b.at(my_column));
            let mut acc = sums.get();
            for l in 0..depth {
                let b = column_of_b.at(l * block).get();
                for (i, acc) in (0..).zip(&mut acc) {
                    *acc = rows_of_a.at(i * depth + l).get().mul_add(b, *acc);
                }
            }
            sums.set(acc);
            sync_threads();
        });
        // Epilogue
        for (i, sum) in (0..).zip(sums.get()) {
            let (row, column) = (first_row + my_row + i, first_column + my_column);
            c.at(row * padded(n) + column).set_if(sum, row.lt(m) & column.lt(n));
        }
    };
    kernel("sgemm_tile_1d", body).required_block(TILE_1D.threads)
}
