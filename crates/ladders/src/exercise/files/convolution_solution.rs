//! convolution: a block brings its 260 numbers and the five weights to shared memory once.

use warpfold_lang::{Global, Kernel, Val, block_idx, kernel, range, shared, sync_threads, thread_idx, var, when};

/// Blocks of the grid.
pub const GRID: [u32; 3] = [4, 1, 1];
/// Threads of a block.
pub const BLOCK: [u32; 3] = [256, 1, 1];

/// The kernel.
pub fn solution() -> Kernel<(Global<f32>, Global<f32>, Global<f32>, u32)> {
    kernel("convolution", |x: Global<f32>, w: Global<f32>, y: Global<f32>, n: Val<u32>| {
        let (tile, weights, thread) = (shared::<f32>(260), shared::<f32>(5), thread_idx().x);
        let start = block_idx().x * 256;
        range(thread, 260, 256, |t| {
            let place = start + t - 2;
            tile.at(t).set(x.at(place).get_or(0.0, place.lt(n)));
        });
        when(thread.lt(5), || weights.at(thread).set(w.at(thread).get()));
        sync_threads();
        let sum = var(0.0_f32);
        for tap in 0..5_u32 {
            sum.update(|sum| tile.at(thread + tap).get().mul_add(weights.at(tap).get(), sum));
        }
        y.at(start + thread).set(sum.get());
    })
}
