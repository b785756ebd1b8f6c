//! Rung 3: keys and values in pages.
//! Changed: a block table says in which page the keys of a sequence are, 16 of them each.
//! Removes: room in the cache that no token takes; a sequence grows by a page wherever one is free.
//! Measured: see `LADDER` (generated).
//! Limit now: parts go to memory, and a second launch waits for all of them.

use warpfold_lang::{Array, Global, Kernel, block_idx, kernel, when};

use super::r02_split_kv::PART;
use crate::attention::cache::{CACHE_WORDS, Cache, THREADS};
use crate::attention::element::AttentionElement;

/// Parameters of the kernel: queries, pages of keys and of values, number of keys of each sequence,
/// the block table, parts, sizes.
pub type Paged<T> =
    Kernel<(Global<T>, Global<T>, Global<T>, Global<u32>, Global<u32>, Global<f32>, [u32; CACHE_WORDS])>;

/// The kernel.
#[must_use]
pub fn paged<T: AttentionElement>(dim: u32) -> Paged<T> {
    let body = move |q: Global<T>,
                     k: Global<T>,
                     v: Global<T>,
                     lens: Global<u32>,
                     table: Global<u32>,
                     parts: Global<f32>,
                     sizes: Array<u32, CACHE_WORDS>| {
        // Roles
        let cache = Cache::of(sizes, dim);
        let (len, part) = (lens.at(cache.sequence()).get(), block_idx().z);
        let place = |key, exists| {
            let place = cache.in_page(table, key, exists);
            [k, v].map(|of| of.at(place))
        };
        when((part * PART).lt(len), || {
            // Main loop
            let keys = (part * PART, len.min(part * PART + PART));
            let state = cache.fold(q, keys, place);
            // Epilogue
            cache.store_part(&state, parts, part, PART);
        });
    };
    kernel(format!("decode_paged_{}_{dim}", T::NAME), body).required_block(THREADS).min_blocks(1)
}
