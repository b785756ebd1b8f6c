//! Rung 4: warps multiply on tensor cores, from tiles that come in the background.
//! Changed: a warp has 16 rows; scores stay in the registers that the first product leaves, and are A of the second.
//! Removes: one instruction a product, and the wait for the next tile, which is copied meanwhile.
//! Measured: see `LADDER` (generated).
//! Limit now: fragments of keys and values come from shared memory for every warp.

use warpfold_lang::{
    Array, Global, Swizzle, Val, block_idx, commit_copies, kernel, range, sync_threads, tile, tiles, wait_for_copies,
};

use super::r03_flash2::Flash2;
use crate::attention::softmax::{Softmax, TwoRows, WarpRows};
use crate::attention::work::{WORDS, Work};
use crate::hgemm::Half;

/// Rows of a block, and keys of a tile.
pub(super) const BLOCK_M: u32 = 64;
pub(super) const BLOCK_N: u32 = 64;
pub(super) const THREADS: u32 = 128;

/// The kernel.
#[must_use]
pub fn mma_sync<T: Half>(dim: u32) -> Flash2<T, T> {
    let body = move |q: Global<T>, k: Global<T>, v: Global<T>, o: Global<T>, sizes: Array<u32, WORDS>| {
        // Shared-memory map
        let tile_q = tile::<T>(BLOCK_M, dim, Swizzle::Bytes128);
        let [tiles_k, tiles_v] = [(); 2].map(|()| tiles::<T>(2, BLOCK_N, dim, Swizzle::Bytes128));
        // Roles
        let (work, head, row) = (Work::of(sizes, dim), block_idx().y, block_idx().x * BLOCK_M);
        let (q, k) = (work.head(q, head), work.head(k, work.kv_head(head)));
        let (v, o) = (work.head(v, work.kv_head(head)), work.head(o, head));
        let (softmax, sums) = (Softmax::new(work, row), WarpRows::<T>::zero(dim));
        let copy = |stage: Val<u32>, first: Val<u32>| {
            k.copy_async(tiles_k.at(stage), first, THREADS);
            v.copy_async(tiles_v.at(stage), first, THREADS);
            commit_copies();
        };
        // Main loop
        q.copy_async(tile_q, row, THREADS);
        copy(0.into(), 0.into());
        range(0, work.seen(row + (BLOCK_M - 1)), BLOCK_N, |first| {
            wait_for_copies(0);
            sync_threads();
            let stage = first / BLOCK_N % 2;
            copy(stage ^ 1, first + BLOCK_N);
            let scores = WarpRows::<T>::zero(BLOCK_N);
            scores.add_keys(tile_q, tiles_k.at(stage));
            sums.scale(softmax.push(&scores, first));
            sums.add_values(&scores, tiles_v.at(stage));
        });
        wait_for_copies(0);
        // Epilogue
        softmax.store(&sums, o, row);
    };
    kernel(format!("attention_mma_sync_{}_{dim}", T::NAME), body).required_block(THREADS).min_blocks(1)
}
