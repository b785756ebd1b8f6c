//! window: a block brings the 10 x 34 pixels that its 8 x 32 outputs need to shared memory.

use warpfold_lang::{Global, Kernel, Val, block_idx, kernel, range, shared, sync_threads, thread_idx, var, when};

/// Blocks of the grid.
pub const GRID: [u32; 3] = [2, 8, 1];
/// Threads of a block.
pub const BLOCK: [u32; 3] = [32, 8, 1];

/// The kernel.
pub fn solution() -> Kernel<(Global<f32>, Global<f32>, Global<f32>, u32)> {
    kernel("window", |x: Global<f32>, filter: Global<f32>, y: Global<f32>, n: Val<u32>| {
        let (tile, weights) = (shared::<f32>(10 * 34), shared::<f32>(9));
        let (left, top) = (block_idx().x * 32, block_idx().y * 8);
        let thread = thread_idx().y * 32 + thread_idx().x;
        range(thread, 10 * 34, 256, |i| {
            let (row, column) = (top + i / 34, left + i % 34);
            tile.at(i).set(x.at(row * n + column).get_or(0.0, row.lt(n) & column.lt(n)));
        });
        when(thread.lt(9), || weights.at(thread).set(filter.at(thread).get()));
        sync_threads();
        let (column, row) = (left + thread_idx().x, top + thread_idx().y);
        when(row.lt(n - 2) & column.lt(n - 2), || {
            let sum = var(0.0_f32);
            for r in 0..3 {
                for s in 0..3 {
                    let pixel = tile.at((thread_idx().y + r) * 34 + thread_idx().x + s).get();
                    sum.update(|sum| pixel.mul_add(weights.at(r * 3 + s).get(), sum));
                }
            }
            y.at(row * (n - 2) + column).set(sum.get());
        });
    })
}
