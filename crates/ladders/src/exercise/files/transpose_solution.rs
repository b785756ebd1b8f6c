//! transpose: a row of the tile has one word more, so that a column lies in all banks.

use warpfold_lang::{Global, Kernel, Val, block_idx, kernel, shared, sync_threads, thread_idx};

const ROW: u32 = 33;

/// Blocks of the grid.
pub const GRID: [u32; 3] = [4, 4, 1];
/// Threads of a block.
pub const BLOCK: [u32; 3] = [32, 8, 1];

/// The kernel.
pub fn solution() -> Kernel<(Global<f32>, Global<f32>, u32)> {
    kernel("transpose", |x: Global<f32>, y: Global<f32>, n: Val<u32>| {
        let tile = shared::<f32>(32 * ROW);
        let (column, row) = (thread_idx().x, thread_idx().y);
        let (left, top) = (block_idx().x * 32, block_idx().y * 32);
        for step in [0, 8, 16, 24] {
            tile.at((row + step) * ROW + column).set(x.at((top + row + step) * n + left + column).get());
        }
        sync_threads();
        for step in [0, 8, 16, 24] {
            y.at((left + row + step) * n + top + column).set(tile.at(column * ROW + row + step).get());
        }
    })
}
