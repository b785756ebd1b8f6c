//! attention: a thread per query, which reads all keys twice for itself.

use warpfold_lang::{Global, Kernel, Val, block_idx, kernel, range, thread_idx, var};

/// Blocks of the grid.
pub const GRID: [u32; 3] = [2, 1, 1];
/// Threads of a block.
pub const BLOCK: [u32; 3] = [32, 1, 1];

/// The kernel.
pub fn solution() -> Kernel<(Global<f32>, Global<f32>, Global<f32>, Global<f32>, u32)> {
    kernel("attention", |q: Global<f32>, k: Global<f32>, v: Global<f32>, o: Global<f32>, n: Val<u32>| {
        let row = (block_idx().x * 32 + thread_idx().x) * 16;
        let query: Vec<_> = (0..16).map(|d| q.at(row + d).get() * 0.25).collect();
        let score = |key: Val<u32>| {
            let terms = query.iter().enumerate().map(|(d, q)| *q * k.at(key * 16 + d as u32).get());
            terms.reduce(|a, b| a + b).expect("sixteen")
        };
        let most = var(f32::NEG_INFINITY);
        range(0, n, 1, |key| most.update(|most| most.max(score(key))));
        let (sum, result) = (var(0.0_f32), [(); 16].map(|()| var(0.0_f32)));
        range(0, n, 1, |key| {
            let weight = (score(key) - most.get()).exp();
            sum.add_assign(weight);
            for (d, result) in result.iter().enumerate() {
                result.add_assign(weight * v.at(key * 16 + d as u32).get());
            }
        });
        for (d, result) in result.iter().enumerate() {
            o.at(row + d as u32).set(result.get() / sum.get());
        }
    })
}
