//! product: a tile of 32 x 32 per block, four outputs per thread.

use warpfold_lang::{Global, Kernel, Val, block_idx, kernel, range, shared, sync_threads, thread_idx, var};

/// Blocks of the grid.
pub const GRID: [u32; 3] = [2, 2, 1];
/// Threads of a block.
pub const BLOCK: [u32; 3] = [16, 16, 1];

/// The kernel.
pub fn solution() -> Kernel<(Global<f32>, Global<f32>, Global<f32>, u32)> {
    kernel("product", |a: Global<f32>, b: Global<f32>, c: Global<f32>, n: Val<u32>| {
        let (left, right) = (shared::<f32>(32 * 16), shared::<f32>(16 * 32)); // 32 rows of 16, 16 rows of 32
        let (x, y) = (thread_idx().x, thread_idx().y);
        let (top, start) = (block_idx().y * 32, block_idx().x * 32);
        let sums = [0, 1, 2, 3].map(|_| var(0.0_f32));
        range(0, n, 16, |k| {
            for half in [0, 16] {
                left.at((y + half) * 16 + x).set(a.at((top + y + half) * n + k + x).get());
                right.at(y * 32 + x + half).set(b.at((k + y) * n + start + x + half).get());
            }
            sync_threads();
            for k in 0..16 {
                let rows = [0, 16].map(|half| left.at((y + half) * 16 + k).get());
                let columns = [0, 16].map(|half| right.at(x + half + 32 * k).get());
                for (i, sum) in sums.iter().enumerate() {
                    sum.update(|sum| rows[i / 2].mul_add(columns[i % 2], sum));
                }
            }
            sync_threads();
        });
        for (i, sum) in sums.iter().enumerate() {
            let (row, column) = (top + y + 16 * (i as u32 / 2), start + x + 16 * (i as u32 % 2));
            c.at(row * n + column).set(sum.get());
        }
    })
}
