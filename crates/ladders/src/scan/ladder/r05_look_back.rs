//! Rung 5: decoupled look-back (Merrill and Garland, 2016).
//! Changed: a tile tells its total before it waits; it adds up the totals before it until a tile has told its whole sum.
//! Removes: the wait for all tiles before: the total of the tile before is enough to go on.
//! Measured: see `LADDER` (generated).
//! Limit now: one thread looks at one tile at a time; the library's scan looks with a warp, and in a fixed order.

use warpfold_lang::{Global, Val, kernel, loop_until_left, shared_named, sync_threads, thread_idx, var, when};

use super::{PREFIX, Scanned, SingleLaunch, TILE, TOTAL, next_tile, scan_block, tell, wait_for};
use crate::LadderElement;

/// Each block scans a tile and what comes before it.
#[must_use]
pub fn look_back<T: LadderElement>() -> SingleLaunch<T> {
    let name = format!("scan_look_back_{}", T::DTYPE);
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
            when(tile.gt(0), || {
                tell(state.at(tile), TOTAL, total);
                let other = var(tile - 1);
                loop_until_left(|back| {
                    let (mark, value) = wait_for::<T>(state.at(other.get()), TOTAL);
                    sum.set(value + sum.get());
                    back.leave_if(mark.eq(PREFIX));
                    other.set(other.get() - 1);
                });
            });
            tell(state.at(tile), PREFIX, sum.get() + total);
            prefix.set(sum.get());
        });
        sync_threads();
        // Epilogue
        output.at(i).set_if(prefix.get() + (before + mine), i.lt(len));
    };
    kernel(name, body).required_block(TILE)
}
