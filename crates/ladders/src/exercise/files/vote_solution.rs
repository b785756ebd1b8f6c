//! vote: one vote has a bit for each lane.

use warpfold_lang::{Global, Kernel, Val, ballot, kernel, thread_idx};

/// Blocks of the grid.
pub const GRID: [u32; 3] = [1, 1, 1];
/// Threads of a block.
pub const BLOCK: [u32; 3] = [256, 1, 1];

/// The kernel.
pub fn solution() -> Kernel<(Global<f32>, Global<f32>, u32)> {
    kernel("vote", |x: Global<f32>, y: Global<f32>, _n: Val<u32>| {
        let i = thread_idx().x;
        y.at(i).set(ballot(x.at(i).get().gt(0.0)).popc().cast::<f32>());
    })
}
