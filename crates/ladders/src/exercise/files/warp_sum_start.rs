//! warp-sum: one lane adds up, and 31 wait.

use warpfold_lang::{Global, Kernel, Val, kernel, range, thread_idx, var, when};

/// Blocks of the grid.
pub const GRID: [u32; 3] = [1, 1, 1];
/// Threads of a block.
pub const BLOCK: [u32; 3] = [32, 1, 1];

/// The kernel.
pub fn solution() -> Kernel<(Global<f32>, Global<f32>, u32)> {
    kernel("warp_sum", |x: Global<f32>, y: Global<f32>, n: Val<u32>| {
        let sum = var(0.0_f32);
        when(thread_idx().x.eq(0), || {
            range(0, n, 1, |i| sum.add_assign(x.at(i).get()));
            y.set(sum.get());
        });
    })
}
