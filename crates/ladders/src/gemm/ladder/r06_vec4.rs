//! Rung 6: accesses of 16 bytes.
//! Changed: loads and stores take four neighbours at once; the tile of `a` lies transposed, so that its fragments do too.
//! Removes: three of four accesses of global and shared memory.
//! Measured: see `LADDER` (generated).
//! Limit now: fragments of `b` lie 32 bytes apart from thread to thread, so that half a warp has bank conflicts.

use warpfold_lang::{Global, Val, block_idx, kernel, range, shared_named, sync_threads, thread_idx, vars};

use super::{Sgemm, TILE_2D, eight, multiply, padded, zeros};

/// Each block computes a tile of `c`, step by step along `k`, from a tile of `a` and one of `b`.
#[must_use]
pub fn vec4() -> Sgemm {
    let body = |a: Global<f32>, b: Global<f32>, c: Global<f32>, m: Val<u32>, n: Val<u32>, k: Val<u32>| {
        let (block, depth) = (TILE_2D.block, TILE_2D.depth);
        // Shared-memory map
        let tile_a = shared_named::<f32>("tile_a", depth * block);
        let tile_b = shared_named::<f32>("tile_b", depth * block);
        // Roles
        let thread = thread_idx().x;
        let (first_row, first_column) = (block_idx().y * block, block_idx().x * block);
        let (row_a, l_a) = (thread / (depth / 4), thread % (depth / 4) * 4);
        let (l_b, column_b) = (thread / (block / 4), thread % (block / 4) * 4);
        let (my_row, my_column) = (thread / 16 * 8, thread % 16 * 8);
        let sums = vars(zeros());
        // Main loop
        range(0, k, depth, |step| {
            let (above, along) = (first_row + row_a, step + l_a);
            let values = a.at(above * padded(k) + along).get_vec_or::<4>(0.0, above.lt(m) & along.lt(k));
            for (i, value) in (0..).zip(values) {
                tile_a.at((l_a + i) * block + row_a).set(value);
            }
            let (along, across) = (step + l_b, first_column + column_b);
            let values = b.at(along * padded(n) + across).get_vec_or::<4>(0.0, along.lt(k) & across.lt(n));
            tile_b.at(l_b * block + column_b).set_vec(values);
            sync_threads();
            let mut acc = sums.get();
            for l in 0..depth {
                let a = eight([0, 4].map(|i| tile_a.at(my_row + (l * block + i)).get_vec::<4>()));
                let b = eight([0, 4].map(|j| tile_b.at(my_column + (l * block + j)).get_vec::<4>()));
                multiply(a, b, &mut acc);
            }
            sums.set(acc);
            sync_threads();
        });
        // Epilogue
        for (i, sums) in (0..).zip(sums.get()) {
            for (j, four) in (0..).step_by(4).zip(sums.chunks(4)) {
                let (row, column) = (first_row + my_row + i, first_column + my_column + j);
                let place = c.at(row * padded(n) + column);
                place.set_vec_if([four[0], four[1], four[2], four[3]], row.lt(m) & column.lt(n));
            }
        }
    };
    kernel("sgemm_vec4", body).required_block(TILE_2D.threads)
}
