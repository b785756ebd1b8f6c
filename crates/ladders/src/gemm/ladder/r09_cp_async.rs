//! Rung 9: copies that pass the registers by.
//! Changed: threads begin asynchronous copies to the other stage, multiply, then wait for the copies.
//! Removes: the registers of the tile under way.
//! Measured: see `LADDER` (generated).
//! Limit now: `a` is transposed by copies of 4 bytes, with 8-way bank conflicts.

use warpfold_lang::{
    Global, Val, block_idx, commit_copies, kernel, lane_id, range, shared_named, sync_threads, thread_idx, var, vars,
    wait_for_copies, warp_id,
};

use super::{STAGES, Sgemm, TILE_2D, eight, multiply, padded, zeros};

/// Each block computes a tile of `c`, step by step along `k`, from a tile of `a` and one of `b`.
#[must_use]
pub fn cp_async() -> Sgemm {
    let body = |a: Global<f32>, b: Global<f32>, c: Global<f32>, m: Val<u32>, n: Val<u32>, k: Val<u32>| {
        let (block, depth) = (TILE_2D.block, TILE_2D.depth);
        // Shared-memory map
        let tile_a = shared_named::<f32>("tile_a", STAGES * depth * block);
        let tile_b = shared_named::<f32>("tile_b", STAGES * depth * block);
        // Roles
        let thread = thread_idx().x;
        let (first_row, first_column) = (block_idx().y * block, block_idx().x * block);
        let (row_a, l_a) = (thread / depth, thread % depth);
        let (l_b, column_b) = (thread / (block / 4), thread % (block / 4) * 4);
        let (my_row, my_column) = (warp_id() / 2 * 32 + lane_id() / 8 * 4, warp_id() % 2 * 64 + lane_id() % 8 * 4);
        let sums = vars(zeros());
        let copy = |stage: Val<u32>, step: Val<u32>| {
            for i in (0..block).step_by((TILE_2D.threads / depth) as usize) {
                let (above, along) = (first_row + row_a + i, step + l_a);
                let to = tile_a.at(stage + l_a * block + row_a + i);
                to.copy_async_or_zero::<1>(a.at(above * padded(k) + along), above.lt(m) & along.lt(k));
            }
            let (along, across) = (step + l_b, first_column + column_b);
            let to = tile_b.at(stage + l_b * block + column_b);
            to.copy_async_or_zero::<4>(b.at(along * padded(n) + across), along.lt(k) & across.lt(n));
            commit_copies();
        };
        // Main loop
        let stage = var(0_u32);
        copy(stage.get(), 0_u32.into());
        wait_for_copies(0);
        sync_threads();
        range(0, k, depth, |step| {
            let (current, other) = (stage.get(), stage.get() ^ (depth * block));
            copy(other, step + depth);
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
            stage.set(other);
            wait_for_copies(0);
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
    kernel("sgemm_cp_async", body).required_block(TILE_2D.threads)
}
