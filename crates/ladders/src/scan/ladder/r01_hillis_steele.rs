//! Rung 1: Hillis and Steele's scan of a tile.
//! Changed: nothing before it; in step `s` every thread adds what lies `2^s` before it.
//! Removes: nothing.
//! Measured: see `LADDER` (generated).
//! Limit now: nine steps of 512 additions for 512 elements, each between two barriers.

use warpfold_lang::{Global, Val, block_idx, doubling, kernel, shared_named, sync_threads, thread_idx, when};

use super::{TILE, Tiles};
use crate::LadderElement;

/// Each block scans a tile, and leaves its total.
#[must_use]
pub fn hillis_steele<T: LadderElement>() -> Tiles<T> {
    let name = format!("scan_hillis_steele_{}", T::DTYPE);
    let body = |input: Global<T>, output: Global<T>, totals: Global<T>, len: Val<u32>| {
        // Shared-memory map
        let tile = shared_named::<T>("tile", TILE);
        // Load
        let thread = thread_idx().x;
        let i = block_idx().x * TILE + thread;
        let mut sum = input.at(i).get_or(T::ZERO, i.lt(len));
        tile.at(thread).set(sum);
        sync_threads();
        // Scan
        for distance in doubling(TILE) {
            sum = tile.at(thread - distance).get_or(T::ZERO, thread.ge(distance)) + sum;
            if distance < TILE / 2 {
                sync_threads();
                tile.at(thread).set(sum);
                sync_threads();
            }
        }
        // Epilogue
        output.at(i).set_if(sum, i.lt(len));
        when(thread.eq(TILE - 1), || totals.at(block_idx().x).set(sum));
    };
    kernel(name, body).required_block(TILE)
}
