//! Rung 5: eight by eight outputs per thread.
//! Changed: tiles of 128 x 128; a thread multiplies eight elements of `a` with eight of `b`, all with all.
//! Removes: three of four shared loads for a multiply-add, and half of the bytes from global memory.
//! Measured: see `LADDER` (generated).
//! Limit now: every load moves 4 bytes per thread, and neighbouring threads have bank conflicts.

use warpfold_lang::{Global, Val, block_idx, kernel, range, shared_named, sync_threads, thread_idx, vars};

use super::{Sgemm, TILE_2D, multiply, padded, zeros};

/// Each block computes a tile of `c`, step by step along `k`, from a tile of `a` and one of `b`.
#[must_use]
pub fn tile_2d() -> Sgemm {
    let body = |a: Global<f32>, b: Global<f32>, c: Global<f32>, m: Val<u32>, n: Val<u32>, k: Val<u32>| {
        let (block, depth) = (TILE_2D.block, TILE_2D.depth);
        // Shared-memory map
        let tile_a = shared_named::<f32>("tile_a", block * depth);
        let tile_b = shared_named::<f32>("tile_b", depth * block);
        // Roles
        let thread = thread_idx().x;
        let (first_row, first_column) = (block_idx().y * block, block_idx().x * block);
        let (row_a, l_a) = (thread / depth, thread % depth);
        let (l_b, column_b) = (thread / block, thread % block);
        let (my_row, my_column) = (thread / 16 * 8, thread % 16 * 8);
        let sums = vars(zeros());
        // Main loop
        range(0, k, depth, |step| {
            for i in 0..4 {
                let (row, l) = (row_a + i * (block / 4), l_a);
                let (above, along) = (first_row + row, step + l);
                let value = a.at(above * padded(k) + along).get_or(0.0, above.lt(m) & along.lt(k));
                tile_a.at(row * depth + l).set(value);
                let (l, column) = (l_b + i * (depth / 4), column_b);
                let (along, across) = (step + l, first_column + column);
                let value = b.at(along * padded(n) + across).get_or(0.0, along.lt(k) & across.lt(n));
                tile_b.at(l * block + column).set(value);
            }
            sync_threads();
            let (rows_of_a, columns_of_b) = (tile_a.at(my_row * depth), tile_b.at(my_column));
            let mut acc = sums.get();
            for l in 0..depth {
                let a = [0, 1, 2, 3, 4, 5, 6, 7].map(|i| rows_of_a.at(i * depth + l).get());
                let b = [0, 1, 2, 3, 4, 5, 6, 7].map(|j| columns_of_b.at(l * block + j).get());
                multiply(a, b, &mut acc);
            }
            sums.set(acc);
            sync_threads();
        });
        // Epilogue
        for (i, sums) in (0..).zip(sums.get()) {
            for (j, sum) in (0..).zip(sums) {
                let (row, column) = (first_row + my_row + i, first_column + my_column + j);
                c.at(row * padded(n) + column).set_if(sum, row.lt(m) & column.lt(n));
            }
        }
    };
    kernel("sgemm_tile_2d", body).required_block(TILE_2D.threads)
}
