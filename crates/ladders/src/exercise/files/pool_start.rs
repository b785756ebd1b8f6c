//! pool: four loads per thread.

use warpfold_lang::{Global, Kernel, Val, block_idx, kernel, thread_idx};

/// Blocks of the grid.
pub const GRID: [u32; 3] = [4, 1, 1];
/// Threads of a block.
pub const BLOCK: [u32; 3] = [256, 1, 1];

/// The kernel.
pub fn solution() -> Kernel<(Global<f32>, Global<f32>, u32)> {
    kernel("pool", |x: Global<f32>, y: Global<f32>, n: Val<u32>| {
        let i = block_idx().x * 256 + thread_idx().x;
        let corner = i / n * 4 * n + i % n * 2;
        let pixels = [corner, corner + 1, corner + n * 2, corner + n * 2 + 1].map(|place| x.at(place).get());
        y.at(i).set(pixels.into_iter().reduce(|a, b| a.max(b)).expect("four"));
    })
}
