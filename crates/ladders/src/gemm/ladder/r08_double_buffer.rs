//! Rung 8: two stages in shared memory, two fragments in registers.
//! Changed: the next tile is loaded before the multiplications and stored behind them; the next fragments likewise.
//! Removes: the waits for global and for shared memory, and one of two barriers a step.
//! Measured: see `LADDER` (generated).
//! Limit now: the tile under way takes registers, and instructions to store it; stores of `a` have bank conflicts.

use warpfold_lang::{
    Global, Val, block_idx, kernel, lane_id, range, shared_named, sync_threads, thread_idx, var, vars, warp_id,
};

use super::{STAGES, Sgemm, TILE_2D, eight, multiply, padded, zeros};

/// Each block computes a tile of `c`, step by step along `k`, from a tile of `a` and one of `b`.
#[must_use]
pub fn double_buffer() -> Sgemm {
    let body = |a: Global<f32>, b: Global<f32>, c: Global<f32>, m: Val<u32>, n: Val<u32>, k: Val<u32>| {
        let (block, depth) = (TILE_2D.block, TILE_2D.depth);
        // Shared-memory map
        let tile_a = shared_named::<f32>("tile_a", STAGES * depth * block);
        let tile_b = shared_named::<f32>("tile_b", STAGES * depth * block);
        // Roles
        let thread = thread_idx().x;
        let (first_row, first_column) = (block_idx().y * block, block_idx().x * block);
        let (row_a, l_a) = (thread / (depth / 4), thread % (depth / 4) * 4);
        let (l_b, column_b) = (thread / (block / 4), thread % (block / 4) * 4);
        let (my_row, my_column) = (warp_id() / 2 * 32 + lane_id() / 8 * 4, warp_id() % 2 * 64 + lane_id() % 8 * 4);
        let sums = vars(zeros());
        let load = |step: Val<u32>| {
            let (above, along) = (first_row + row_a, step + l_a);
            let of_a = a.at(above * padded(k) + along).get_vec_or::<4>(0.0, above.lt(m) & along.lt(k));
            let (along, across) = (step + l_b, first_column + column_b);
            let of_b = b.at(along * padded(n) + across).get_vec_or::<4>(0.0, along.lt(k) & across.lt(n));
            (of_a, of_b)
        };
        let store = |stage: Val<u32>, (of_a, of_b): ([Val<f32>; 4], [Val<f32>; 4])| {
            for (i, value) in (0..).zip(of_a) {
                tile_a.at(stage + (l_a + i) * block + row_a).set(value);
            }
            tile_b.at(stage + l_b * block + column_b).set_vec(of_b);
        };
        // Main loop
        let stage = var(0_u32);
        store(stage.get(), load(0_u32.into()));
        sync_threads();
        range(0, k, depth, |step| {
            let (current, other) = (stage.get(), stage.get() ^ (depth * block));
            let next = load(step + depth);
            let mut acc = sums.get();
            let fragments = |l: u32| {
                let a = eight([0, 16].map(|i| tile_a.at(current + my_row + (l * block + i)).get_vec::<4>()));
                let b = eight([0, 32].map(|j| tile_b.at(current + my_column + (l * block + j)).get_vec::<4>()));
                (a, b)
            };
            let mut next_fragments = fragments(0);
            for l in 0..depth {
                let (a, b) = next_fragments;
                if l + 1 < depth {
                    next_fragments = fragments(l + 1);
                }
                multiply(a, b, &mut acc);
            }
            sums.set(acc);
            store(other, next);
            stage.set(other);
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
    kernel("sgemm_double_buffer", body).required_block(TILE_2D.threads)
}
