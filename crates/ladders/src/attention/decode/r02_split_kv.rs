//! Rung 2: blocks share the keys of a sequence.
//! Changed: a block takes 256 keys, and leaves what it has seen of them; a second launch combines the parts in their order.
//! Removes: multiprocessors without a block.
//! Measured: see `LADDER` (generated).
//! Limit now: a cache has room for the longest sequence that may come, whatever comes.

use warpfold_lang::{Array, Global, Kernel, block_idx, kernel, when};

use crate::attention::cache::{CACHE_WORDS, Cache, THREADS};
use crate::attention::element::AttentionElement;

/// Keys of a part.
pub(super) const PART: u32 = 256;

/// Parameters of the kernel: queries, keys, values, number of keys of each sequence, parts, sizes.
pub type SplitKv<T> = Kernel<(Global<T>, Global<T>, Global<T>, Global<u32>, Global<f32>, [u32; CACHE_WORDS])>;

/// The kernel.
#[must_use]
pub fn split_kv<T: AttentionElement>(dim: u32) -> SplitKv<T> {
    let body = move |q: Global<T>,
                     k: Global<T>,
                     v: Global<T>,
                     lens: Global<u32>,
                     parts: Global<f32>,
                     sizes: Array<u32, CACHE_WORDS>| {
        // Roles
        let cache = Cache::of(sizes, dim);
        let (len, part) = (lens.at(cache.sequence()).get(), block_idx().z);
        let (k, v) = (cache.contiguous(k), cache.contiguous(v));
        when((part * PART).lt(len), || {
            // Main loop
            let keys = (part * PART, len.min(part * PART + PART));
            let state = cache.fold(q, keys, |key, _| [k, v].map(|of| of.at(key * dim)));
            // Epilogue
            cache.store_part(&state, parts, part, PART);
        });
    };
    kernel(format!("decode_split_kv_{}_{dim}", T::NAME), body).required_block(THREADS).min_blocks(1)
}

/// Parameters of the second kernel: parts, number of keys of each sequence, results, sizes.
pub type Combine<O> = Kernel<(Global<f32>, Global<u32>, Global<O>, [u32; CACHE_WORDS])>;

/// The second kernel, of a rung: a warp combines the parts of a head.
#[must_use]
pub fn combine<T: AttentionElement>(rung: &str, dim: u32) -> Combine<T::Out> {
    let body = move |parts: Global<f32>, lens: Global<u32>, o: Global<T::Out>, sizes: Array<u32, CACHE_WORDS>| {
        let cache = Cache::of(sizes, dim);
        let num = lens.at(cache.sequence()).get().div_ceil(PART);
        let (head, exists) = cache.own_row();
        cache.store(&cache.combine_parts(parts, head, num, PART), o, head, exists);
    };
    kernel(format!("decode_{rung}_combine_{}_{dim}", T::NAME), body).required_block(THREADS)
}
