//! product: a tile of 16 x 16 per block, an output per thread.

use warpfold_lang::{Global, Kernel, Val, block_idx, kernel, range, shared, sync_threads, thread_idx, var};

/// Blocks of the grid.
pub const GRID: [u32; 3] = [4, 4, 1];
/// Threads of a block.
pub const BLOCK: [u32; 3] = [16, 16, 1];

/// The kernel.
pub fn solution() -> Kernel<(Global<f32>, Global<f32>, Global<f32>, u32)> {
    kernel("product", |a: Global<f32>, b: Global<f32>, c: Global<f32>, n: Val<u32>| {
        let (left, right) = (shared::<f32>(256), shared::<f32>(256));
        let (x, y) = (thread_idx().x, thread_idx().y);
        let (row, column) = (block_idx().y * 16 + y, block_idx().x * 16 + x);
        let sum = var(0.0_f32);
        range(0, n, 16, |k| {
            left.at(y * 16 + x).set(a.at(row * n + k + x).get());
            right.at(y * 16 + x).set(b.at((k + y) * n + column).get());
            sync_threads();
            for k in 0..16 {
                sum.update(|sum| left.at(y * 16 + k).get().mul_add(right.at(x + 16 * k).get(), sum));
            }
            sync_threads();
        });
        c.at(row * n + column).set(sum.get());
    })
}
