//! Rung 1: a block for the query heads of a sequence that share their keys.
//! Changed: nothing before it; teams of lanes take keys in turn, each lane 16 bytes, and combine what they have seen.
//! Removes: nothing.
//! Measured: see `LADDER` (generated).
//! Limit now: few sequences are few blocks, and a long one takes as long as its block.

use warpfold_lang::{Array, Global, Kernel, kernel};

use crate::attention::cache::{CACHE_WORDS, Cache, THREADS};
use crate::attention::element::AttentionElement;

/// Parameters of the kernel: queries, keys, values, number of keys of each sequence, results,
/// sizes.
pub type OneBlock<T, O> = Kernel<(Global<T>, Global<T>, Global<T>, Global<u32>, Global<O>, [u32; CACHE_WORDS])>;

/// The kernel.
#[must_use]
pub fn one_block<T: AttentionElement>(dim: u32) -> OneBlock<T, T::Out> {
    let body = move |q: Global<T>,
                     k: Global<T>,
                     v: Global<T>,
                     lens: Global<u32>,
                     o: Global<T::Out>,
                     sizes: Array<u32, CACHE_WORDS>| {
        // Roles
        let cache = Cache::of(sizes, dim);
        let len = lens.at(cache.sequence()).get();
        let (k, v) = (cache.contiguous(k), cache.contiguous(v));
        // Main loop
        let state = cache.fold(q, (0.into(), len), |key, _| [k, v].map(|of| of.at(key * dim)));
        // Epilogue
        let (head, exists) = cache.own_row();
        cache.store(&state, o, head, exists);
    };
    kernel(format!("decode_one_block_{}_{dim}", T::NAME), body).required_block(THREADS).min_blocks(1)
}
