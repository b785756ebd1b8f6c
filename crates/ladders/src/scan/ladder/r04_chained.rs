//! Rung 4: one launch, a chain of tiles.
//! Changed: a tile scans itself, waits for the sum up to the tile before it, and hands on the sum up to its own end.
//! Removes: two launches, and the second way of the output through memory.
//! Measured: see `LADDER` (generated).
//! Limit now: the chain: each tile waits for all before it, one by one.

use warpfold_lang::{Global, Val, kernel, shared_named, sync_threads, thread_idx, var, when};

use super::{PREFIX, Scanned, SingleLaunch, TILE, next_tile, scan_block, tell, wait_for};
use crate::LadderElement;

/// Each block scans a tile and what comes before it.
#[must_use]
pub fn chained<T: LadderElement>() -> SingleLaunch<T> {
    let name = format!("scan_chained_{}", T::DTYPE);
    let body = |input: Global<T>, output: Global<T>, state: Global<u64>, ticket: Global<u32>, len: Val<u32>| {
        // Shared-memory map
        let prefix = shared_named::<T>("prefix", 1);
        // Load
        let (thread, tile) = (thread_idx().x, next_tile(ticket));
        let i = tile * TILE + thread;
        let mine = input.at(i).get_or(T::ZERO, i.lt(len));
        // Scan
        let Scanned { before, total } = scan_block(mine);
        // Hand over
        when(thread.eq(0), || {
            let sum = var(T::ZERO);
            when(tile.gt(0), || sum.set(wait_for(state.at(tile - 1), PREFIX).1));
            tell(state.at(tile), PREFIX, sum.get() + total);
            prefix.set(sum.get());
        });
        sync_threads();
        // Epilogue
        output.at(i).set_if(prefix.get() + (before + mine), i.lt(len));
    };
    kernel(name, body).required_block(TILE)
}
