//! Rung 1: each warp multiplies fragments that it loads from shared memory into its registers.
//! Changed: nothing; the first way to tensor cores, which every architecture from sm_80 on has.
//! Removes: one instruction a product: a warp's instruction is 16 x 8 x 16 of them.
//! Measured: see `LADDER` (generated).
//! Limit now: copies wait for products and products for copies, and both go through the registers.

use warpfold_lang::{
    Global, Kernel, Major, Swizzle, Val, WarpSums, block_idx, kernel, range, sync_threads, tile, warp_id,
};

use crate::hgemm::block::{Half, Part};

/// Rows and columns of `c` a block, and how far it goes along `k` in a step.
pub(super) const BLOCK_M: u32 = 128;
pub(super) const BLOCK_N: u32 = 128;
const BLOCK_K: u32 = 64;
/// Rows and columns of a warp; 2 x 4 warps make a block.
const WARP_M: u32 = 64;
const WARP_N: u32 = 32;
pub(super) const THREADS: u32 = 256;

/// Parameters of the kernel: `a`, `b`, `c`, `m`, `n`, `k`.
pub type MmaSync<T> = Kernel<(Global<T>, Global<T>, Global<T>, u32, u32, u32)>;

/// The kernel.
#[must_use]
pub fn mma_sync<T: Half>() -> MmaSync<T> {
    let body = |a: Global<T>, b: Global<T>, c: Global<T>, m: Val<u32>, n: Val<u32>, k: Val<u32>| {
        // Shared-memory map
        let tile_a = tile::<T>(BLOCK_M, BLOCK_K, Swizzle::Bytes128);
        let tile_b = tile::<T>(BLOCK_N, BLOCK_K, Swizzle::Bytes128);
        // Roles
        let (row, column) = (block_idx().y * BLOCK_M, block_idx().x * BLOCK_N);
        let (warp_row, warp_column) = ((warp_id() >> 2) * WARP_M, (warp_id() & 3) * WARP_N);
        let sums = grid(WARP_M / 16, WARP_N / 8);
        // Main loop
        range(0, k, BLOCK_K, |k0| {
            Part { matrix: a, rows: m, columns: k, row, column: k0 }.copy_to(tile_a, THREADS);
            Part { matrix: b, rows: n, columns: k, row: column, column: k0 }.copy_to(tile_b, THREADS);
            sync_threads();
            for step in (0..BLOCK_K).step_by(T::STEP as usize) {
                let left = |i: u32| tile_a.fragment_a(Major::K, warp_row + 16 * i, step);
                let right = |j: u32| tile_b.fragments_b(Major::K, warp_column + 16 * j, step);
                let left: Vec<_> = (0..WARP_M / 16).map(left).collect();
                let right: Vec<_> = (0..WARP_N / 16).flat_map(right).collect();
                for (row_of_sums, a) in sums.iter().zip(left) {
                    row_of_sums.iter().zip(&right).for_each(|(sums, b)| sums.add_product(a, *b));
                }
            }
            sync_threads();
        });
        // Epilogue
        let part = Part { matrix: c, rows: m, columns: n, row: row + warp_row, column: column + warp_column };
        for (i, row_of_sums) in (0..).zip(sums) {
            for (j, sums) in (0..).zip(row_of_sums) {
                for (row, column, pair) in sums.pairs() {
                    part.store_pair(row + 16 * i, column + 8 * j, pair);
                }
            }
        }
    };
    kernel(format!("hgemm_mma_sync_{}", T::NAME), body).required_block(THREADS).min_blocks(1)
}

fn grid<T: Half>(rows: u32, columns: u32) -> Vec<Vec<WarpSums<T>>> {
    (0..rows).map(|_| (0..columns).map(|_| WarpSums::zero()).collect()).collect()
}
