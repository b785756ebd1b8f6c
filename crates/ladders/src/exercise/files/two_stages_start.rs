//! two-stages: the row that is read may still be on its way.

use warpfold_lang::{Global, Kernel, Val, commit_copies, kernel, shared, sync_threads, thread_idx, wait_for_copies};

/// Blocks of the grid.
pub const GRID: [u32; 3] = [1, 1, 1];
/// Threads of a block.
pub const BLOCK: [u32; 3] = [256, 1, 1];

/// The kernel.
pub fn solution() -> Kernel<(Global<f32>, Global<f32>, u32)> {
    kernel("two_stages", |x: Global<f32>, y: Global<f32>, n: Val<u32>| {
        let (tile, thread) = (shared::<f32>(512), thread_idx().x);
        let fetch = |row: u32| {
            tile.at(thread + 256 * (row % 2)).copy_async::<1>(x.at(thread + n * row));
            commit_copies();
        };
        fetch(0);
        for row in 0..8 {
            if row < 7 {
                fetch(row + 1);
            }
            wait_for_copies(1);
            sync_threads();
            y.at(thread + n * row).set(tile.at(n - 1 - thread + 256 * (row % 2)).get());
            sync_threads();
        }
    })
}
