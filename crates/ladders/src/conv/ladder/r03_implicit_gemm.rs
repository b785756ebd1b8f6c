//! Rung 3: a product whose matrix nobody makes.
//! Changed: the block gathers its tile of the matrix from the images, in the one launch that multiplies.
//! Removes: the matrix, and its way through memory.
//! Measured: see `LADDER` (generated).
//! Limit now: one output a thread, and the divisions that find a pixel; the library's kernel has tiles as `sgemm` has them.

use warpfold_lang::{Array, Global, block_idx, kernel, range, shared_named, sync_threads, thread_idx, var, when};

use super::{Conv, TILE};
use crate::conv::shape::{Shape, WORDS};
use crate::row::RowElement;

/// Each block computes a tile of filters and pixels from tiles of the filters and of what they look at.
#[must_use]
pub fn implicit_gemm<T: RowElement>() -> Conv<T> {
    let body = |x: Global<T>, weights: Global<T>, y: Global<T>, words: Array<u32, WORDS>| {
        // Shared-memory map
        let tile_w = shared_named::<f32>("tile_w", TILE * TILE);
        let tile_x = shared_named::<f32>("tile_x", TILE * TILE);
        // Roles
        let shape = Shape::of(words);
        let (tx, ty) = (thread_idx().x, thread_idx().y);
        let filter = block_idx().y * TILE + ty;
        let pixel = block_idx().x * TILE + tx;
        let (has_filter, has_pixel) = (filter.lt(shape.filters()), pixel.lt(shape.pixels()));
        let at = shape.place(pixel);
        let sum = var(0.0_f32);
        // Main loop
        range(0, shape.depth(), TILE, |step| {
            let (l_w, l_x) = (step + tx, step + ty);
            let weight = weights.at(filter * shape.depth() + l_w).get_or(T::ZERO, has_filter & l_w.lt(shape.depth()));
            let value = shape.get(x, at, l_x, has_pixel & l_x.lt(shape.depth()));
            tile_w.at(ty * TILE + tx).set(weight.cast::<f32>());
            tile_x.at(ty * TILE + tx).set(value);
            sync_threads();
            let mut acc = sum.get();
            for l in 0..TILE {
                acc = tile_w.at(ty * TILE + l).get().mul_add(tile_x.at(tx + l * TILE).get(), acc);
            }
            sum.set(acc);
            sync_threads();
        });
        // Epilogue
        when(has_filter & has_pixel, || y.at(shape.output(filter, at)).set(sum.get().cast::<T>()));
    };
    kernel(format!("conv_implicit_gemm_{}", T::DTYPE), body).required_block((TILE, TILE))
}
