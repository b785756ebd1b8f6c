//! pairs: one load of 8 bytes per thread.

use warpfold_lang::{Global, Kernel, Val, block_idx, kernel, thread_idx, when};

/// Blocks of the grid.
pub const GRID: [u32; 3] = [4, 1, 1];
/// Threads of a block.
pub const BLOCK: [u32; 3] = [256, 1, 1];

/// The kernel.
pub fn solution() -> Kernel<(Global<f32>, Global<f32>, u32)> {
    kernel("pairs", |x: Global<f32>, y: Global<f32>, n: Val<u32>| {
        let i = block_idx().x * 256 + thread_idx().x;
        when(i.lt(n), || {
            let [low, high] = x.at(i * 2).get_vec::<2>();
            y.at(i).set(low + high);
        });
    })
}
