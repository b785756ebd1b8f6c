//! neighbours: each thread loads its number once, and takes the neighbours from shared memory.

use warpfold_lang::{Global, Kernel, Val, kernel, shared, sync_threads, thread_idx, when};

/// Blocks of the grid.
pub const GRID: [u32; 3] = [1, 1, 1];
/// Threads of a block.
pub const BLOCK: [u32; 3] = [256, 1, 1];

/// The kernel.
pub fn solution() -> Kernel<(Global<f32>, Global<f32>, u32)> {
    kernel("neighbours", |x: Global<f32>, y: Global<f32>, _n: Val<u32>| {
        let (tile, i) = (shared::<f32>(258), thread_idx().x);
        tile.at(i + 1).set(x.at(i).get());
        when(i.eq(0), || tile.at(0).set(0.0));
        when(i.eq(255), || tile.at(257).set(0.0));
        sync_threads();
        y.at(i).set(tile.at(i).get() + tile.at(i + 1).get() + tile.at(i + 2).get());
    })
}
