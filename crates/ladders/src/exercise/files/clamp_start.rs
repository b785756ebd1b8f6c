//! clamp: lanes with negative numbers go another way than the others of their warp.

use warpfold_lang::{Global, Kernel, Val, block_dim, block_idx, kernel, thread_idx, var, when};

/// Blocks of the grid.
pub const GRID: [u32; 3] = [16, 1, 1];
/// Threads of a block.
pub const BLOCK: [u32; 3] = [256, 1, 1];

/// The kernel.
pub fn solution() -> Kernel<(Global<f32>, Global<f32>, u32)> {
    kernel("clamp", |x: Global<f32>, y: Global<f32>, _n: Val<u32>| {
        let i = block_idx().x * block_dim().x + thread_idx().x;
        let value = var(x.at(i).get());
        when(value.get().lt(0.0), || value.set(0.0));
        y.at(i).set(value.get());
    })
}
