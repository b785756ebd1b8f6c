//! Rung 2: no score leaves the registers (Dao and others, FlashAttention, 2022).
//! Changed: a block goes from tile to tile of keys, and over all rows with each: a warp pushes a row's scores.
//! Removes: the stored scores; what a row has seen is its result so far, its largest score and its sum.
//! Measured: see `LADDER` (generated).
//! Limit now: each tile of keys rescales every result in memory, and only heads run side by side.

use warpfold_lang::{Array, Global, Kernel, block_idx, kernel, lane_id, range, sync_threads, warp_id};

use crate::attention::element::AttentionElement;
use crate::attention::rows::{KEYS, Rows, State, add_values};
use crate::attention::work::{WORDS, Work};

/// Warps of a block.
pub(super) const WARPS: u32 = 8;
const THREADS: u32 = 32 * WARPS;

/// Parameters of the kernel: queries, keys, values, results, two statistics per row, sizes.
pub type Flash1<T> = Kernel<(Global<T>, Global<T>, Global<T>, Global<f32>, Global<f32>, [u32; WORDS])>;

/// The kernel.
#[must_use]
pub fn flash1<T: AttentionElement>(dim: u32) -> Flash1<T> {
    let body = move |q: Global<T>,
                     k: Global<T>,
                     v: Global<T>,
                     o: Global<f32>,
                     statistics: Global<f32>,
                     sizes: Array<u32, WORDS>| {
        // Shared-memory map
        let (keys, values) = (Rows::new(KEYS, dim), Rows::new(KEYS, dim));
        // Roles
        let (work, head) = (Work::of(sizes, dim), block_idx().x);
        let (q, k) = (work.head(q, head), work.head(k, work.kv_head(head)));
        let (v, o) = (work.head(v, work.kv_head(head)), work.head(o, head));
        let statistics = statistics.at(head.mul_wide(work.tokens()) * 2_u64);
        // Main loop
        range(0, work.tokens(), KEYS, |first| {
            keys.fill(k, first, THREADS);
            values.fill(v, first, THREADS);
            sync_threads();
            let key = first + lane_id();
            range(work.first_row(first) + warp_id(), work.tokens(), WARPS, |row| {
                let score = work.masked(row, key, keys.dot(q.row(row)));
                let state = [State::load_scaled(o.row(row), statistics.at(row * 2), first.ne(0), dim)];
                let weight = state[0].push(score);
                add_values(&state, &[weight], values);
                // Epilogue
                state[0].store_scaled(o.row(row), statistics.at(row * 2));
            });
            sync_threads();
        });
    };
    kernel(format!("attention_flash1_{}_{dim}", T::NAME), body).required_block(THREADS)
}
