//! attention: keys and values come to shared memory, and one pass carries maximum, sum and result.

use warpfold_lang::{Global, Kernel, Val, block_idx, kernel, range, shared, sync_threads, thread_idx, var};

/// Blocks of the grid.
pub const GRID: [u32; 3] = [2, 1, 1];
/// Threads of a block.
pub const BLOCK: [u32; 3] = [32, 1, 1];

/// The kernel.
pub fn solution() -> Kernel<(Global<f32>, Global<f32>, Global<f32>, Global<f32>, u32)> {
    kernel("attention", |q: Global<f32>, k: Global<f32>, v: Global<f32>, o: Global<f32>, n: Val<u32>| {
        let (keys, values) = (shared::<f32>(64 * 16), shared::<f32>(64 * 16));
        range(thread_idx().x, n * 16, 32, |i| {
            keys.at(i).set(k.at(i).get());
            values.at(i).set(v.at(i).get());
        });
        sync_threads();
        let row = (block_idx().x * 32 + thread_idx().x) * 16;
        let query: Vec<_> = (0..16).map(|d| q.at(row + d).get() * 0.25).collect();
        let (most, sum, result) = (var(f32::NEG_INFINITY), var(0.0_f32), [(); 16].map(|()| var(0.0_f32)));
        range(0, n, 1, |key| {
            let terms = query.iter().enumerate().map(|(d, q)| *q * keys.at(key * 16 + d as u32).get());
            let score = terms.reduce(|a, b| a + b).expect("sixteen");
            let larger = most.get().max(score);
            let (rescale, weight) = ((most.get() - larger).exp(), (score - larger).exp());
            most.set(larger);
            sum.update(|sum| sum * rescale + weight);
            for (d, result) in result.iter().enumerate() {
                let value = values.at(key * 16 + d as u32).get();
                result.update(|result| result * rescale + weight * value);
            }
        });
        for (d, result) in result.iter().enumerate() {
            o.at(row + d as u32).set(result.get() / sum.get());
        }
    })
}
