//! Rung 4: warps multiply tiles that come in the background, from channels that lie side by side.
//! Changed: images and filters are `NHWC`, halves or tf32; a thread begins to copy 16 bytes of channels for the other stage.
//! Removes: divisions and bounds checks of all but one channel of a copy, registers under way, and sums on CUDA cores.
//! Measured: see `LADDER` (generated).
//! Limit now: every thread still finds the pixels of its copies; the library's kernel has larger tiles and more stages.

use warpfold_lang::{
    Array, Global, Major, Swizzle, Val, WarpSums, block_idx, commit_copies, kernel, range, sync_threads, thread_idx,
    tiles, wait_for_copies, warp_id,
};

use super::{Conv, Factor};
use crate::conv::shape::{Shape, WORDS};

/// Pixels and filters of a block; pieces of 16 bytes of a stage.
pub(super) const TILE: u32 = 64;
pub(super) const PIECES: u32 = 8;
pub(super) const THREADS: u32 = 128;

/// Each block computes a tile of filters and pixels from tiles of the filters and of what they look at.
#[must_use]
pub fn cp_async<T: Factor>() -> Conv<T> {
    let depth = PIECES * T::WIDTH;
    let body = move |x: Global<T>, weights: Global<T>, y: Global<T>, words: Array<u32, WORDS>| {
        // Shared-memory map
        let tiles_w = tiles::<T>(2, TILE, depth, Swizzle::Bytes128);
        let tiles_x = tiles::<T>(2, TILE, depth, Swizzle::Bytes128);
        // Roles
        let shape = Shape::of(words);
        let (pixel, filter) = (block_idx().x * TILE, block_idx().y * TILE);
        let (row, column) = (thread_idx().x / PIECES, thread_idx().x % PIECES * T::WIDTH);
        let rows = [0, 16, 32, 48].map(|i| (row + i, shape.place(pixel + row + i)));
        let lines_x = tiles_x.lines_of_a(Major::K, warp_id() / 2, TILE / 2);
        let lines_w = tiles_w.lines_of_b(Major::K, warp_id() % 2, TILE / 2);
        let sums = [(); 8].map(|()| WarpSums::<T>::zero());
        let copy = |stage: Val<u32>, step: Val<u32>| {
            for (row, at) in rows {
                shape.copy_weights(weights, filter + row, step + column, tiles_w.at(stage).at(row, column));
                shape.copy_channels(x, at, step + column, tiles_x.at(stage).at(row, column));
            }
            commit_copies();
        };
        // Main loop
        copy(Val::constant(0), Val::constant(0));
        range(0, shape.depth(), depth, |step| {
            wait_for_copies(0);
            sync_threads();
            let stage = step / depth % 2;
            copy(stage ^ 1, step + depth);
            let (x, w) = (lines_x.of_tile(stage), lines_w.of_tile(stage));
            for step in (0..depth).step_by(T::STEP as usize) {
                let left = [0, 16].map(|line| x.fragment(line, step));
                let right = [0, 16].map(|line| w.fragments(line, step));
                (0..8).for_each(|i| sums[i].add_product(left[i / 4], right[i / 2 % 2][i % 2]));
            }
        });
        wait_for_copies(0);
        // Epilogue
        for (i, sums) in (0..).zip(sums) {
            let (pixel, filter) = (pixel + warp_id() / 2 * 32 + i / 4 * 16, filter + warp_id() % 2 * 32 + i % 4 * 8);
            shape.set_pairs(y, pixel, filter, sums.pairs());
        }
    };
    kernel(format!("conv_cp_async_{}", T::DTYPE), body).required_block(THREADS)
}
