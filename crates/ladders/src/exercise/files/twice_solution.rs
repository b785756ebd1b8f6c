//! twice: neighbouring threads take neighbouring groups of four; what is left over goes one by one.

use warpfold_lang::{Global, Kernel, Val, block_dim, block_idx, kernel, thread_idx, when};

/// Blocks of the grid.
pub const GRID: [u32; 3] = [98, 1, 1];
/// Threads of a block.
pub const BLOCK: [u32; 3] = [256, 1, 1];

/// The kernel.
pub fn solution() -> Kernel<(Global<f32>, Global<f32>, u32)> {
    kernel("twice", |x: Global<f32>, y: Global<f32>, n: Val<u32>| {
        let thread = block_idx().x * block_dim().x + thread_idx().x;
        let groups = n / 4;
        when(thread.lt(groups), || {
            let four = x.at(thread * 4).get_vec::<4>();
            y.at(thread * 4).set_vec(four.map(|x| x * 2.0));
        });
        let rest = groups * 4 + thread;
        when(rest.lt(n), || y.at(rest).set(x.at(rest).get() * 2.0));
    })
}
