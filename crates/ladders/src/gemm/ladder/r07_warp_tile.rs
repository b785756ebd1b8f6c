//! Rung 7: a warp has a tile of its own.
//! Changed: a warp takes 32 x 64 outputs; its threads' fragments lie side by side, four wide, in two halves each way.
//! Removes: every bank conflict of the fragments, and half of the bytes of `a` and `b` that a warp reads.
//! Measured: see `LADDER` (generated).
//! Limit now: the block waits while a tile comes from global memory, at two barriers a step.

use warpfold_lang::{
    Global, Val, block_idx, kernel, lane_id, range, shared_named, sync_threads, thread_idx, vars, warp_id,
};

use super::{Sgemm, TILE_2D, eight, multiply, padded, zeros};

/// Each block computes a tile of `c`, step by step along `k`, from a tile of `a` and one of `b`.
#[must_use]
pub fn warp_tile() -> Sgemm {
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
        let (my_row, my_column) = (warp_id() / 2 * 32 + lane_id() / 8 * 4, warp_id() % 2 * 64 + lane_id() % 8 * 4);
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
                let a = eight([0, 16].map(|i| tile_a.at(my_row + (l * block + i)).get_vec::<4>()));
                let b = eight([0, 32].map(|j| tile_b.at(my_column + (l * block + j)).get_vec::<4>()));
                multiply(a, b, &mut acc);
            }
            sums.set(acc);
            sync_threads();
        });
        // Epilogue
        for (i, sums) in [0, 1, 2, 3, 16, 17, 18, 19].into_iter().zip(sums.get()) {
            for (j, four) in [0, 32].into_iter().zip(sums.chunks(4)) {
                let (row, column) = (first_row + my_row + i, first_column + my_column + j);
                let place = c.at(row * padded(n) + column);
                place.set_vec_if([four[0], four[1], four[2], four[3]], row.lt(m) & column.lt(n));
            }
        }
    };
    kernel("sgemm_warp_tile", body).required_block(TILE_2D.threads)
}
