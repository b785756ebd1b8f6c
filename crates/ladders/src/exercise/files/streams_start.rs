//! streams: everything in one stream, so that two of three engines always wait.

use warpfold_lang::{Global, Kernel, Val, block_dim, block_idx, kernel, thread_idx, when};

/// Blocks of the grid of one part.
pub const GRID: [u32; 3] = [4, 1, 1];
/// Threads of a block.
pub const BLOCK: [u32; 3] = [256, 1, 1];

/// What the host issues, in this order: a stream (0 to 7), what it does (`in` copies a part to the
/// device, `run` runs the kernel on it, `out` brings its result back), and the part (0 to 3).
/// `0 record 5` and `1 wait 5` let stream 1 wait for what stream 0 was given before.
pub const PLAN: &str = "
    0 in 0
    0 run 0
    0 out 0
    0 in 1
    0 run 1
    0 out 1
    0 in 2
    0 run 2
    0 out 2
    0 in 3
    0 run 3
    0 out 3
";

/// The kernel.
pub fn solution() -> Kernel<(Global<f32>, Global<f32>, u32)> {
    kernel("streams", |x: Global<f32>, y: Global<f32>, n: Val<u32>| {
        let i = block_idx().x * block_dim().x + thread_idx().x;
        when(i.lt(n), || y.at(i).set(x.at(i).get() * 3.0));
    })
}
