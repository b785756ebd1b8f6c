//! argmax: one thread looks at all of them.

use warpfold_lang::{Global, Kernel, Val, kernel, range, thread_idx, var, when};

/// Blocks of the grid.
pub const GRID: [u32; 3] = [1, 1, 1];
/// Threads of a block.
pub const BLOCK: [u32; 3] = [256, 1, 1];

/// The kernel.
pub fn solution() -> Kernel<(Global<f32>, Global<f32>, u32)> {
    kernel("argmax", |x: Global<f32>, y: Global<f32>, n: Val<u32>| {
        when(thread_idx().x.eq(0), || {
            let (most, place) = (var(x.at(0).get()), var(0_u32));
            range(1, n, 1, |i| {
                let value = x.at(i).get();
                when(value.gt(most.get()), || {
                    most.set(value);
                    place.set(i);
                });
            });
            y.set(place.get().cast::<f32>());
        });
    })
}
