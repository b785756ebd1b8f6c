//! Rung 3: a row stays in registers until it has seen all of its keys (Dao, FlashAttention-2, 2023).
//! Changed: a block takes 32 rows and goes from tile to tile of keys; a warp has eight rows, and divides each once.
//! Removes: results and statistics that come from memory and go back, and blocks that only heads can fill.
//! Measured: see `LADDER` (generated).
//! Limit now: CUDA cores multiply, one key a lane.

use warpfold_lang::{Array, Global, Kernel, block_idx, kernel, lane_id, range, sync_threads, warp_id};

use crate::attention::element::AttentionElement;
use crate::attention::rows::{KEYS, Rows, State, add_values};
use crate::attention::work::{WORDS, Work};

/// Rows of a block, and of a warp.
pub(super) const ROWS: u32 = 32;
const WARP_ROWS: u32 = 8;
const THREADS: u32 = 32 * (ROWS / WARP_ROWS);

/// Parameters of the kernel: queries, keys, values, results, sizes.
pub type Flash2<T, O> = Kernel<(Global<T>, Global<T>, Global<T>, Global<O>, [u32; WORDS])>;

/// The kernel.
#[must_use]
pub fn flash2<T: AttentionElement>(dim: u32) -> Flash2<T, T::Out> {
    let body = move |q: Global<T>, k: Global<T>, v: Global<T>, o: Global<T::Out>, sizes: Array<u32, WORDS>| {
        // Shared-memory map
        let queries = Rows::new(ROWS, dim);
        let (keys, values) = (Rows::new(KEYS, dim), Rows::new(KEYS, dim));
        // Roles
        let (work, head) = (Work::of(sizes, dim), block_idx().y);
        let (q, k) = (work.head(q, head), work.head(k, work.kv_head(head)));
        let (v, o) = (work.head(v, work.kv_head(head)), work.head(o, head));
        let (first_row, own) = (block_idx().x * ROWS, warp_id() * WARP_ROWS);
        let rows: Vec<_> = (0..WARP_ROWS).map(|row| first_row + own + row).collect();
        let states: Vec<_> = rows.iter().map(|_| State::new(dim)).collect();
        // Main loop
        queries.fill(q, first_row, THREADS);
        range(0, work.seen(first_row + (ROWS - 1)), KEYS, |first| {
            keys.fill(k, first, THREADS);
            values.fill(v, first, THREADS);
            sync_threads();
            let key = first + lane_id();
            let scores = keys.dots(queries, own, WARP_ROWS);
            let push = |((state, row), score): ((&State, &_), _)| state.push(work.masked(*row, key, score));
            let weights: Vec<_> = states.iter().zip(&rows).zip(scores).map(push).collect();
            add_values(&states, &weights, values);
            sync_threads();
        });
        // Epilogue
        states.iter().zip(rows).for_each(|(state, row)| state.store(o.row(row), row.lt(work.tokens())));
    };
    kernel(format!("attention_flash2_{}_{dim}", T::NAME), body).required_block(THREADS).min_blocks(1)
}
