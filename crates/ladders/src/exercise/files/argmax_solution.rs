//! argmax: pairs of value and position fold by shuffles, then through shared memory.

use warpfold_lang::{
    Global, Kernel, Val, kernel, lane_id, shared, shfl_xor, sync_threads, thread_idx, var, warp_id, when,
};

/// Blocks of the grid.
pub const GRID: [u32; 3] = [1, 1, 1];
/// Threads of a block.
pub const BLOCK: [u32; 3] = [256, 1, 1];

/// The kernel.
pub fn solution() -> Kernel<(Global<f32>, Global<f32>, u32)> {
    kernel("argmax", |x: Global<f32>, y: Global<f32>, _n: Val<u32>| {
        let (values, places) = (shared::<f32>(8), shared::<u32>(8));
        let (most, place) = (var(x.at(thread_idx().x).get()), var(thread_idx().x));
        let take = |value: Val<f32>, other: Val<u32>| {
            let better = value.gt(most.get()) | (value.eq(most.get()) & other.lt(place.get()));
            place.set(better.select(other, place.get()));
            most.set(better.select(value, most.get()));
        };
        for bits in [16, 8, 4, 2, 1] {
            take(shfl_xor(most.get(), bits), shfl_xor(place.get(), bits));
        }
        when(lane_id().eq(0), || {
            values.at(warp_id()).set(most.get());
            places.at(warp_id()).set(place.get());
        });
        sync_threads();
        when(thread_idx().x.eq(0), || {
            for warp in 1..8 {
                take(values.at(warp).get(), places.at(warp).get());
            }
            y.set(place.get().cast::<f32>());
        });
    })
}
