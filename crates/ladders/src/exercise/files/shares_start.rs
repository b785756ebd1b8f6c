//! shares: a load brings 4 bytes per lane.

use warpfold_lang::{Global, Kernel, Val, block_dim, block_idx, grid_dim, kernel, range, thread_idx};

/// Blocks of the grid.
pub const GRID: [u32; 3] = [4, 1, 1];
/// Threads of a block.
pub const BLOCK: [u32; 3] = [256, 1, 1];

/// The kernel.
pub fn solution() -> Kernel<(Global<f32>, Global<f32>, Global<f32>, Global<f32>, Global<f32>, u32)> {
    kernel("shares", |a: Global<f32>, b: Global<f32>, c: Global<f32>, d: Global<f32>, y: Global<f32>, n: Val<u32>| {
        let first = block_idx().x * 256 + thread_idx().x;
        range(first, n, grid_dim().x * block_dim().x, |i| {
            let sum = [a, b, c, d].map(|share| share.at(i).get()).into_iter().reduce(|a, b| a + b).expect("four");
            y.at(i).set(sum);
        });
    })
}
