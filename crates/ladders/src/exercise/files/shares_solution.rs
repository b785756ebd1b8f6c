//! shares: a load brings 16 bytes per lane.

use warpfold_lang::{Global, Kernel, Val, block_idx, kernel, thread_idx, when};

/// Blocks of the grid.
pub const GRID: [u32; 3] = [4, 1, 1];
/// Threads of a block.
pub const BLOCK: [u32; 3] = [256, 1, 1];

/// The kernel.
pub fn solution() -> Kernel<(Global<f32>, Global<f32>, Global<f32>, Global<f32>, Global<f32>, u32)> {
    kernel("shares", |a: Global<f32>, b: Global<f32>, c: Global<f32>, d: Global<f32>, y: Global<f32>, n: Val<u32>| {
        let first = (block_idx().x * 256 + thread_idx().x) * 4;
        when(first.lt(n), || {
            let shares = [a, b, c, d].map(|share| share.at(first).get_vec::<4>());
            y.at(first).set_vec([0, 1, 2, 3].map(|i| shares[0][i] + shares[1][i] + shares[2][i] + shares[3][i]));
        });
    })
}
