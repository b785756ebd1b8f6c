//! Rung 2: Blelloch's scan of a tile.
//! Changed: sums go up a tree, then what comes before each element goes down it; a thread has two elements.
//! Removes: most additions: about two per element instead of nine.
//! Measured: see `LADDER` (generated).
//! Limit now: strides that are powers of two have bank conflicts; each step of the tree is a barrier.

use warpfold_lang::{Global, Val, block_idx, doubling, halving, kernel, shared_named, sync_threads, thread_idx, when};

use super::{TILE, Tiles};
use crate::LadderElement;

/// Each block of half as many threads as a tile has elements scans it, and leaves its total.
#[must_use]
pub fn blelloch<T: LadderElement>() -> Tiles<T> {
    let name = format!("scan_blelloch_{}", T::DTYPE);
    let body = |input: Global<T>, output: Global<T>, totals: Global<T>, len: Val<u32>| {
        // Shared-memory map
        let tile = shared_named::<T>("tile", TILE);
        // Load
        let thread = thread_idx().x;
        let places = [thread, thread + TILE / 2];
        let elements = places.map(|place| {
            let i = block_idx().x * TILE + place;
            let element = input.at(i).get_or(T::ZERO, i.lt(len));
            tile.at(place).set(element);
            element
        });
        sync_threads();
        // Scan: up
        let pair = |distance: u32| {
            let left = tile.at(thread * (2 * distance) + (distance - 1));
            (left, left.at(distance))
        };
        for distance in doubling(TILE / 2) {
            let (left, right) = pair(distance);
            when(thread.lt(TILE / 2 / distance), || right.add_assign(left.get()));
            sync_threads();
        }
        // Scan: the root
        when(thread.eq(0), || {
            let (left, right) = pair(TILE / 2);
            totals.at(block_idx().x).set(left.get() + right.get());
            right.set(left.get());
            left.set(T::ZERO);
        });
        sync_threads();
        // Scan: down
        for distance in halving(TILE / 4) {
            let (left, right) = pair(distance);
            when(thread.lt(TILE / 2 / distance), || {
                let (sum, before) = (left.get(), right.get());
                left.set(before);
                right.set(before + sum);
            });
            sync_threads();
        }
        // Epilogue
        for (place, element) in places.into_iter().zip(elements) {
            let i = block_idx().x * TILE + place;
            output.at(i).set_if(tile.at(place).get() + element, i.lt(len));
        }
    };
    kernel(name, body).required_block(TILE / 2)
}
