//! private: a copy of the counts for each lane.

use warpfold_lang::{
    Global, Kernel, Val, kernel, lane_id, range, shared, shfl_xor, sync_threads, thread_idx, warp_id, when,
};

/// Blocks of the grid.
pub const GRID: [u32; 3] = [1, 1, 1];
/// Threads of a block.
pub const BLOCK: [u32; 3] = [256, 1, 1];

/// The kernel.
pub fn solution() -> Kernel<(Global<f32>, Global<f32>, u32)> {
    kernel("private", |x: Global<f32>, y: Global<f32>, n: Val<u32>| {
        let counts = shared::<u32>(16 * 32);
        range(thread_idx().x, 16 * 32, 256, |i| counts.at(i).set(0));
        sync_threads();
        range(thread_idx().x, n, 256, |i| {
            counts.at(x.at(i).get().cast::<u32>() * 32 + lane_id()).atomic().add(1);
        });
        sync_threads();
        for half in [0, 8] {
            let bin = warp_id() + half;
            let mut count = counts.at(bin * 32 + lane_id()).get();
            for bits in [16, 8, 4, 2, 1] {
                count = count + shfl_xor(count, bits);
            }
            when(lane_id().eq(0), || y.at(bin).set(count.cast::<f32>()));
        }
    })
}
