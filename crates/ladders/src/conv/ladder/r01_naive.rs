//! Rung 1: one output a thread.
//! Changed: the formula as it stands: a thread walks over a filter and the pixels under it.
//! Removes: nothing.
//! Measured: see `LADDER` (generated).
//! Limit now: each multiply-add comes with two loads of global memory, and the divisions that find the pixel.

use warpfold_lang::{Array, Global, Val, block_idx, kernel, range, thread_idx, var, when};

use super::{Conv, TILE};
use crate::conv::shape::{Shape, WORDS};
use crate::row::RowElement;

/// Each block computes a tile of filters and pixels, one output a thread.
#[must_use]
pub fn naive<T: RowElement>() -> Conv<T> {
    let body = |x: Global<T>, weights: Global<T>, y: Global<T>, words: Array<u32, WORDS>| {
        // Roles
        let shape = Shape::of(words);
        let filter = block_idx().y * TILE + thread_idx().y;
        let pixel = block_idx().x * TILE + thread_idx().x;
        when(filter.lt(shape.filters()) & pixel.lt(shape.pixels()), || {
            let at = shape.place(pixel);
            let sum = var(0.0_f32);
            // Main loop
            range(0, shape.depth(), 1, |l| {
                let weight: Val<f32> = weights.at(filter * shape.depth() + l).get().cast();
                let value = shape.get(x, at, l, true.into());
                sum.update(|sum| weight.mul_add(value, sum));
            });
            // Epilogue
            y.at(shape.output(filter, at)).set(sum.get().cast::<T>());
        });
    };
    kernel(format!("conv_naive_{}", T::DTYPE), body).required_block((TILE, TILE))
}
