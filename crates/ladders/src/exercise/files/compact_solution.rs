//! compact: a vote tells each lane its place; the others fill the rest.

use warpfold_lang::{Global, Kernel, Val, ballot, kernel, lane_id, lanes_before};

/// Blocks of the grid.
pub const GRID: [u32; 3] = [1, 1, 1];
/// Threads of a block.
pub const BLOCK: [u32; 3] = [32, 1, 1];

/// The kernel.
pub fn solution() -> Kernel<(Global<f32>, Global<f32>, u32)> {
    kernel("compact", |x: Global<f32>, y: Global<f32>, _n: Val<u32>| {
        let value = x.at(lane_id()).get();
        let positive = ballot(value.gt(0.0));
        let before = (positive & lanes_before()).popc();
        let place = value.gt(0.0).select(before, positive.popc() + lane_id() - before);
        y.at(place).set(value.max(0.0));
    })
}
