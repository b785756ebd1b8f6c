//! window: a thread per output, which reads its nine pixels from global memory.

use warpfold_lang::{Global, Kernel, Val, block_idx, kernel, thread_idx, var, when};

/// Blocks of the grid.
pub const GRID: [u32; 3] = [2, 8, 1];
/// Threads of a block.
pub const BLOCK: [u32; 3] = [32, 8, 1];

/// The kernel.
pub fn solution() -> Kernel<(Global<f32>, Global<f32>, Global<f32>, u32)> {
    kernel("window", |x: Global<f32>, filter: Global<f32>, y: Global<f32>, n: Val<u32>| {
        let (column, row) = (block_idx().x * 32 + thread_idx().x, block_idx().y * 8 + thread_idx().y);
        when(row.lt(n - 2) & column.lt(n - 2), || {
            let sum = var(0.0_f32);
            for r in 0..3 {
                for s in 0..3 {
                    let pixel = x.at((row + r) * n + column + s).get();
                    sum.update(|sum| pixel.mul_add(filter.at(r * 3 + s).get(), sum));
                }
            }
            y.at(row * (n - 2) + column).set(sum.get());
        });
    })
}
