//! Rung 2: a warpgroup multiplies tiles straight from shared memory, and one thread issues the copies.
//! Changed: `wgmma` reads shared memory itself, and the copy of a tile is one instruction that an mbarrier tells the end of.
//! Removes: fragments in registers, their loads, and every address of the copies.
//! Measured: see `LADDER` (generated).
//! Limit now: the tensor cores wait while a tile is copied, and small tiles are read often.

use warpfold_lang::{
    Barriers, Global, Kernel, Major, Operands, Swizzle, TensorMap, Val, WarpgroupSums, barriers, block_idx, kernel,
    range, sync_threads, thread_idx, tile, var, wgmma_commit, wgmma_fence, wgmma_wait, when,
};

use crate::hgemm::block::{Half, Part};

pub(super) const BLOCK_M: u32 = 64;
pub(super) const BLOCK_N: u32 = 64;
const BLOCK_K: u32 = 64;
pub(super) const THREADS: u32 = 128;

/// Parameters of the kernel: `a` and `b` with boxes of 64 columns, `c`, `m`, `n`, `k`.
pub type WgmmaTma<T> = Kernel<(TensorMap<T>, TensorMap<T>, Global<T>, u32, u32, u32)>;

/// The kernel.
#[must_use]
pub fn wgmma_tma<T: Half>() -> WgmmaTma<T> {
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
        let sums = WarpgroupSums::<T>::new(BLOCK_N);
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
            sums.add_product(&Operands { a: tile_a, a_major: Major::K, b: tile_b, b_major: Major::K }, k0.ne(0));
            wgmma_commit();
            wgmma_wait(0);
            sync_threads();
        });
        // Epilogue
        Part { matrix: c, rows: m, columns: n, row, column }.store_sums(&sums);
    };
    kernel(format!("hgemm_wgmma_tma_{}", T::NAME), body).required_block(THREADS).min_blocks(1)
}
