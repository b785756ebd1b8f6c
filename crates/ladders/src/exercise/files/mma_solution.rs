//! mma: fragments from shared memory, 16 numbers at a time.

use half::f16;
use warpfold_lang::{Global, Kernel, Major, Swizzle, Val, WarpSums, kernel, range, sync_threads, thread_idx, tile};

/// Blocks of the grid.
pub const GRID: [u32; 3] = [1, 1, 1];
/// Threads of a block.
pub const BLOCK: [u32; 3] = [32, 1, 1];

/// The kernel.
pub fn solution() -> Kernel<(Global<f32>, Global<f32>, Global<f32>, u32)> {
    kernel("mma", |a: Global<f32>, b: Global<f32>, y: Global<f32>, _n: Val<u32>| {
        let (left, right) = (tile::<f16>(16, 64, Swizzle::Bytes128), tile::<f16>(16, 64, Swizzle::Bytes128));
        range(thread_idx().x, 16 * 64, 32, |i| {
            left.at(i / 64, i % 64).set(a.at(i).get().cast::<f16>());
            right.at(i / 64, i % 64).set(b.at(i).get().cast::<f16>());
        });
        sync_threads();
        let sums = [WarpSums::<f16>::zero(), WarpSums::zero()];
        for k in [0, 16, 32, 48] {
            let rows = left.fragment_a(Major::K, 0, k);
            let columns = right.fragments_b(Major::K, 0, k);
            sums[0].add_product(rows, columns[0]);
            sums[1].add_product(rows, columns[1]);
        }
        for (i, sums) in sums.into_iter().enumerate() {
            for (row, column, pair) in sums.pairs() {
                y.at(row * 16 + column + 8 * i as u32).set_vec(pair);
            }
        }
    })
}
