//! compact: one lane looks at one number after the other.

use warpfold_lang::{Global, Kernel, Val, kernel, lane_id, range, var, when};

/// Blocks of the grid.
pub const GRID: [u32; 3] = [1, 1, 1];
/// Threads of a block.
pub const BLOCK: [u32; 3] = [32, 1, 1];

/// The kernel.
pub fn solution() -> Kernel<(Global<f32>, Global<f32>, u32)> {
    kernel("compact", |x: Global<f32>, y: Global<f32>, n: Val<u32>| {
        when(lane_id().eq(0), || {
            let place = var(0_u32);
            range(0, n, 1, |i| y.at(i).set(0.0));
            range(0, n, 1, |i| {
                let value = x.at(i).get();
                when(value.gt(0.0), || {
                    y.at(place.get()).set(value);
                    place.add_assign(1);
                });
            });
        });
    })
}
