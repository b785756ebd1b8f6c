//! twice: a thread takes 16 numbers side by side, and a warp asks for 32 distant places at once.

use warpfold_lang::{Global, Kernel, Val, block_dim, block_idx, kernel, range, thread_idx, when};

/// Blocks of the grid.
pub const GRID: [u32; 3] = [25, 1, 1];
/// Threads of a block.
pub const BLOCK: [u32; 3] = [256, 1, 1];

/// The kernel.
pub fn solution() -> Kernel<(Global<f32>, Global<f32>, u32)> {
    kernel("twice", |x: Global<f32>, y: Global<f32>, n: Val<u32>| {
        // Each thread takes 16 elements side by side: what does a warp ask for at once?
        let first = (block_idx().x * block_dim().x + thread_idx().x) * 16;
        range(first, first + 16, 1, |i| when(i.lt(n), || y.at(i).set(x.at(i).get() * 2.0)));
    })
}
