//! mma: one multiplication after the other.

use warpfold_lang::{Global, Kernel, Val, kernel, lane_id, range, var};

/// Blocks of the grid.
pub const GRID: [u32; 3] = [1, 1, 1];
/// Threads of a block.
pub const BLOCK: [u32; 3] = [32, 1, 1];

/// The kernel.
pub fn solution() -> Kernel<(Global<f32>, Global<f32>, Global<f32>, u32)> {
    kernel("mma", |a: Global<f32>, b: Global<f32>, y: Global<f32>, n: Val<u32>| {
        range(lane_id(), 256, 32, |i| {
            let sum = var(0.0_f32);
            range(0, n, 1, |k| sum.update(|sum| a.at(i / 16 * n + k).get().mul_add(b.at(i % 16 * n + k).get(), sum)));
            y.at(i).set(sum.get());
        });
    })
}
