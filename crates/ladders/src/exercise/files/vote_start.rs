//! vote: five shuffles add up ones and zeros.

use warpfold_lang::{Global, Kernel, Val, kernel, shfl_xor, thread_idx};

/// Blocks of the grid.
pub const GRID: [u32; 3] = [1, 1, 1];
/// Threads of a block.
pub const BLOCK: [u32; 3] = [256, 1, 1];

/// The kernel.
pub fn solution() -> Kernel<(Global<f32>, Global<f32>, u32)> {
    kernel("vote", |x: Global<f32>, y: Global<f32>, _n: Val<u32>| {
        let i = thread_idx().x;
        let mut count: Val<f32> = x.at(i).get().gt(0.0).select(1.0_f32, 0.0_f32);
        for bits in [16, 8, 4, 2, 1] {
            count = count + shfl_xor(count, bits);
        }
        y.at(i).set(count);
    })
}
