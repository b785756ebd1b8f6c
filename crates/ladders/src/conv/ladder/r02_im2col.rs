//! Rung 2: a matrix of what the filters look at, then a product.
//! Changed: a first launch writes the pixels under each position of the filter as a column; a second one multiplies tiles.
//! Removes: the search for pixels from the sums, and 15 of 16 loads.
//! Measured: see `LADDER` (generated).
//! Limit now: the matrix is larger than the images by the size of a filter, and goes through memory twice.

use warpfold_lang::{Array, Global, block_idx, kernel, range, shared_named, sync_threads, thread_idx, var, when};

use super::{Conv, TILE};
use crate::conv::shape::{Shape, WORDS};
use crate::row::RowElement;

/// Writes the matrix: a row for each element of a filter, a column for each pixel of the result.
#[must_use]
pub fn columns<T: RowElement>() -> Conv<T> {
    let body = |x: Global<T>, _: Global<T>, matrix: Global<T>, words: Array<u32, WORDS>| {
        // Roles
        let shape = Shape::of(words);
        let l = block_idx().y * TILE + thread_idx().y;
        let pixel = block_idx().x * TILE + thread_idx().x;
        when(l.lt(shape.depth()) & pixel.lt(shape.pixels()), || {
            matrix.at(l * shape.pixels() + pixel).set(shape.get(x, shape.place(pixel), l, true.into()).cast::<T>());
        });
    };
    kernel(format!("conv_im2col_columns_{}", T::DTYPE), body).required_block((TILE, TILE))
}

/// Each block computes a tile of filters and pixels from tiles of the filters and of the matrix.
#[must_use]
pub fn im2col<T: RowElement>() -> Conv<T> {
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
            let value = x.at(l_x * shape.pixels() + pixel).get_or(T::ZERO, has_pixel & l_x.lt(shape.depth()));
            tile_w.at(ty * TILE + tx).set(weight.cast::<f32>());
            tile_x.at(ty * TILE + tx).set(value.cast::<f32>());
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
    kernel(format!("conv_im2col_{}", T::DTYPE), body).required_block((TILE, TILE))
}
