//! Rung 1: scores, their softmax and the weighted values, each by a launch.
//! Changed: nothing before it; a block scores 32 rows with 32 keys, and a warp adds up the values of its row.
//! Removes: nothing.
//! Measured: see `LADDER` (generated).
//! Limit now: the scores of every row with every key go to memory and come back, twice.

use warpfold_lang::{Array, Global, Kernel, block_idx, kernel, lane_id, range, sync_threads, warp_id, when};

use crate::attention::element::AttentionElement;
use crate::attention::rows::{KEYS, Rows, State, add_values};
use crate::attention::work::{WORDS, Work};

/// Rows of a block that scores.
pub(super) const ROWS: u32 = 32;
/// Warps of a block, and rows of one that adds up.
pub(super) const WARPS: u32 = 8;
const THREADS: u32 = 32 * WARPS;

/// The scores: takes queries, keys, scores, sizes.
#[must_use]
pub fn scores<T: AttentionElement>(dim: u32) -> Kernel<(Global<T>, Global<T>, Global<f32>, [u32; WORDS])> {
    let body = move |q: Global<T>, k: Global<T>, scores: Global<f32>, sizes: Array<u32, WORDS>| {
        // Shared-memory map
        let keys = Rows::new(KEYS, dim);
        // Roles
        let (work, head) = (Work::of(sizes, dim), block_idx().z);
        let (q, k) = (work.head(q, head), work.head(k, work.kv_head(head)));
        let (first_row, first) = (block_idx().y * ROWS, block_idx().x * KEYS);
        // Main loop
        keys.fill(k, first, THREADS);
        sync_threads();
        let key = first + lane_id();
        range(first_row + warp_id(), (first_row + ROWS).min(work.tokens()), WARPS, |row| {
            let score = work.masked(row, key, keys.dot(q.row(row)));
            work.scores(scores, head, row).at(key).set_if(score, key.lt(work.tokens()));
        });
    };
    kernel(format!("attention_scores_{}_{dim}", T::NAME), body).required_block(THREADS)
}

/// The weighted values: takes weights, values, results, sizes.
#[must_use]
pub fn values<T: AttentionElement>(dim: u32) -> Kernel<(Global<f32>, Global<T>, Global<T::Out>, [u32; WORDS])> {
    let body = move |weights: Global<f32>, v: Global<T>, o: Global<T::Out>, sizes: Array<u32, WORDS>| {
        // Shared-memory map
        let values = Rows::new(KEYS, dim);
        // Roles
        let (work, head) = (Work::of(sizes, dim), block_idx().y);
        let (v, o) = (work.head(v, work.kv_head(head)), work.head(o, head));
        let row = block_idx().x * WARPS + warp_id();
        let weights = work.scores(weights, head, row);
        let state = [State::new(dim)];
        // Main loop
        range(0, work.tokens(), KEYS, |first| {
            values.fill(v, first, THREADS);
            sync_threads();
            let key = first + lane_id();
            let weight = weights.at(key).get_or(0.0_f32, row.lt(work.tokens()) & key.lt(work.tokens()));
            add_values(&state, &[weight], values);
            sync_threads();
        });
        // Epilogue
        when(row.lt(work.tokens()), || state[0].store_values(o.row(row)));
    };
    kernel(format!("attention_values_{}_{dim}", T::NAME), body).required_block(THREADS)
}
