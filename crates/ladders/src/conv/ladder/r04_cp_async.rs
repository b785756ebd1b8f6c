//! Rung 4: warps multiply tiles that come in the background, from channels that lie side by side.
//! Changed: images and filters are `NHWC`, in tf32; a thread begins to copy four channels of a pixel for the other stage.
//! Removes: three divisions and bounds checks of four, registers under way, and the sums' turns on CUDA cores.
//! Measured: see `LADDER` (generated).
//! Limit now: every thread still finds the pixels of its copies; the library's kernel has larger tiles and more stages.

use warpfold_lang::{
    Array, Global, Major, Swizzle, Val, WarpSums, block_idx, commit_copies, kernel, range, sync_threads, thread_idx,
    tiles, wait_for_copies, warp_id,
};

use super::{Conv, PIECE};
use crate::conv::shape::{Shape, WORDS};

/// Pixels and filters of a block; steps of a stage.
pub(super) const TILE: u32 = 64;
pub(super) const DEPTH: u32 = 32;
pub(super) const THREADS: u32 = 128;

/// Each block computes a tile of filters and pixels from tiles of the filters and of what they look at.
#[must_use]
pub fn cp_async() -> Conv<f32> {
    let body = |x: Global<f32>, weights: Global<f32>, y: Global<f32>, words: Array<u32, WORDS>| {
        // Shared-memory map
        let tiles_w = tiles::<f32>(2, TILE, DEPTH, Swizzle::Bytes128);
        let tiles_x = tiles::<f32>(2, TILE, DEPTH, Swizzle::Bytes128);
        // Roles
        let shape = Shape::of(words);
        let (pixel, filter) = (block_idx().x * TILE, block_idx().y * TILE);
        let (row, column) = (thread_idx().x / (DEPTH / PIECE), thread_idx().x % (DEPTH / PIECE) * PIECE);
        let rows = [0, 16, 32, 48].map(|i| (row + i, shape.place(pixel + row + i)));
        let lines_x = tiles_x.lines_of_a(Major::K, warp_id() / 2, TILE / 2);
        let lines_w = tiles_w.lines_of_b(Major::K, warp_id() % 2, TILE / 2);
        let sums = [(); 8].map(|()| WarpSums::<f32>::zero());
        let copy = |stage: Val<u32>, step: Val<u32>| {
            for (row, at) in rows {
                shape.copy_weights(weights, filter + row, step + column, tiles_w.at(stage).at(row, column));
                shape.copy_channels(x, at, step + column, tiles_x.at(stage).at(row, column));
            }
            commit_copies();
        };
        // Main loop
        copy(Val::constant(0), Val::constant(0));
        range(0, shape.depth(), DEPTH, |step| {
            wait_for_copies(0);
            sync_threads();
            let stage = step / DEPTH % 2;
            copy(stage ^ 1, step + DEPTH);
            let (x, w) = (lines_x.of_tile(stage), lines_w.of_tile(stage));
            for step in (0..DEPTH).step_by(8) {
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
    kernel("conv_cp_async", body).required_block(THREADS)
}
