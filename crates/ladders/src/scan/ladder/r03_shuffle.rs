//! Rung 3: warps scan by shuffles.
//! Changed: a warp scans its 32 elements in registers; every warp then scans the sums of all warps.
//! Removes: nearly all of shared memory with its conflicts, and all barriers but one.
//! Measured: see `LADDER` (generated).
//! Limit now: three launches; the output is written, read and written again.

use warpfold_lang::{Global, Val, block_idx, kernel, thread_idx, when};

use super::{Scanned, TILE, Tiles, scan_block};
use crate::LadderElement;

/// Each block scans a tile, and leaves its total.
#[must_use]
pub fn shuffle<T: LadderElement>() -> Tiles<T> {
    let name = format!("scan_shuffle_{}", T::DTYPE);
    let body = |input: Global<T>, output: Global<T>, totals: Global<T>, len: Val<u32>| {
        // Load
        let thread = thread_idx().x;
        let i = block_idx().x * TILE + thread;
        let mine = input.at(i).get_or(T::ZERO, i.lt(len));
        // Scan
        let Scanned { before, total } = scan_block(mine);
        // Epilogue
        output.at(i).set_if(before + mine, i.lt(len));
        when(thread.eq(0), || totals.at(block_idx().x).set(total));
    };
    kernel(name, body).required_block(TILE)
}
