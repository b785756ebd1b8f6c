//! Rung 5: a warpgroup multiplies tiles that bulk copies gather.
//! Changed: a map in im2col mode walks over the pixels of each element of a filter, and one thread starts its copies.
//! Removes: every address, division and bounds check of the gathering, and the fragments' way through registers.
//! Measured: see `LADDER` (generated).
//! Limit now: tensor cores wait while tiles are copied, and of 128 bytes of a copy an image with colours has 16.

use warpfold_lang::{
    Array, Barriers, Global, Major, Operands, Swizzle, TensorMap, WarpgroupSums, barriers, block_idx, kernel, range,
    sync_threads, thread_idx, tile, var, wgmma_commit, wgmma_fence, wgmma_wait, when,
};

use super::{ConvOfMaps, Factor};
use crate::conv::shape::{Shape, WORDS};

/// Pixels and filters of a block; pieces of 16 bytes of a stage.
pub(super) const TILE: u32 = 64;
pub(super) const PIECES: u32 = 8;
pub(super) const THREADS: u32 = 128;

/// Each block computes a tile of filters and pixels from tiles of the filters and of what they look at.
#[must_use]
pub fn wgmma_im2col<T: Factor>() -> ConvOfMaps<T> {
    let depth = PIECES * T::WIDTH;
    let body = move |x: TensorMap<T>, weights: TensorMap<T>, y: Global<T>, words: Array<u32, WORDS>| {
        // Shared-memory map
        let tile_x = tile::<T>(TILE, depth, Swizzle::Bytes128);
        let tile_w = tile::<T>(TILE, depth, Swizzle::Bytes128);
        // Barriers
        let full = barriers(1).at(0);
        // Roles
        let shape = Shape::of(words);
        let (pixel, filter) = (block_idx().x * TILE, block_idx().y * TILE);
        let at = shape.place(pixel);
        when(thread_idx().x.eq(0), || {
            full.init(1);
            Barriers::publish();
        });
        sync_threads();
        let sums = WarpgroupSums::<T>::new(TILE);
        let parity = var(0);
        // Main loop
        range(0, shape.elements(), 1, |element| {
            range(0, shape.channels(), depth, |channel| {
                when(thread_idx().x.eq(0), || {
                    full.arrive_expect(tile_x.bytes() + tile_w.bytes());
                    x.load_im2col(tile_x.at(0, 0), at.coordinates(channel), shape.offsets(element), full);
                    weights.load(tile_w.at(0, 0), [channel, element, filter], full);
                });
                full.wait(parity);
                parity.set(parity.get() ^ 1);
                wgmma_fence();
                let factors = Operands { a: tile_x, a_major: Major::K, b: tile_w, b_major: Major::K };
                sums.add_product(&factors, (element | channel).ne(0));
                wgmma_commit();
                wgmma_wait(0);
                sync_threads();
            });
        });
        // Epilogue
        shape.set_pairs(y, pixel, filter, sums.pairs());
    };
    kernel(format!("conv_wgmma_im2col_{}", T::DTYPE), body).required_block(THREADS).min_blocks(1)
}
