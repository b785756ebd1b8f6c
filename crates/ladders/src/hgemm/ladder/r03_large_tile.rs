//! Rung 3: a block of 128 x 128, two products of 64 x 128 for the warpgroup.
//! Changed: the tile has four times the area for twice the edges.
//! Removes: half of the bytes that each product needs from memory, and half of what it reads of shared memory.
//! Measured: see `LADDER` (generated).
//! Limit now: the tensor cores still wait while tiles are copied.

use warpfold_lang::{
    Barriers, Global, Major, Operands, Swizzle, TensorMap, Val, WarpgroupSums, barriers, block_idx, kernel, range,
    sync_threads, thread_idx, tile, var, wgmma_commit, wgmma_fence, wgmma_wait, when,
};

use super::r02_wgmma_tma::WgmmaTma;
use crate::hgemm::block::{Half, Part};

pub(super) const BLOCK_M: u32 = 128;
pub(super) const BLOCK_N: u32 = 128;
const BLOCK_K: u32 = 64;
pub(super) const THREADS: u32 = 128;

/// The kernel.
#[must_use]
pub fn large_tile<T: Half>() -> WgmmaTma<T> {
    let body = |a: TensorMap<T>, b: TensorMap<T>, c: Global<T>, m: Val<u32>, n: Val<u32>, k: Val<u32>| {
        // Shared-memory map
        let tile_a = tile::<T>(BLOCK_M, BLOCK_K, Swizzle::Bytes128);
        let tile_b = tile::<T>(BLOCK_N, BLOCK_K, Swizzle::Bytes128);
        // Barriers
        let full = barriers(1).at(0);
        // Roles
        let (row, column) = (block_idx().y * BLOCK_M, block_idx().x * BLOCK_N);
        let copies = thread_idx().x.eq(0);
        when(copies, || {
            full.init(1);
            Barriers::publish();
        });
        sync_threads();
        let halves = [0, 64].map(|first| (first, WarpgroupSums::<T>::new(BLOCK_N)));
        let parity = var(0);
        // Main loop
        range(0, k, BLOCK_K, |k0| {
            when(copies, || {
                full.arrive_expect(tile_a.bytes() + tile_b.bytes());
                a.load_tile(tile_a, row, k0, full);
                b.load_tile(tile_b, column, k0, full);
            });
            full.wait(parity);
            parity.set(parity.get() ^ 1);
            wgmma_fence();
            for (first, sums) in &halves {
                let a = tile_a.rows_from(*first, 64);
                sums.add_product(&Operands { a, a_major: Major::K, b: tile_b, b_major: Major::K }, k0.ne(0));
            }
            wgmma_commit();
            wgmma_wait(0);
            sync_threads();
        });
        // Epilogue
        for (first, sums) in &halves {
            Part { matrix: c, rows: m, columns: n, row: row + *first, column }.store_sums(sums);
        }
    };
    kernel(format!("hgemm_large_tile_{}", T::NAME), body).required_block(THREADS).min_blocks(1)
}
