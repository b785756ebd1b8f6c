//! Rung 4: the last block of a head combines its parts.
//! Changed: blocks take tickets when their parts are stored; the one that a counter tells to be the last reads all.
//! Removes: the second launch, and its wait for the last block of all heads.
//! Measured: see `LADDER` (generated).
//! Limit now: memory, where there are enough keys; else the time from the first load to the last store.

use warpfold_lang::{
    Array, Global, Kernel, Order, block_idx, grid_dim, kernel, shared_named, sync_threads, thread_idx, when,
};

use super::r02_split_kv::PART;
use crate::attention::cache::{CACHE_WORDS, Cache, THREADS};
use crate::attention::element::AttentionElement;

/// Parameters of the kernel: queries, pages of keys and of values, number of keys of each sequence,
/// the block table, parts, a counter for each block of heads (zero before and after), results,
/// sizes.
pub type SingleLaunch<T, O> = Kernel<(
    Global<T>,
    Global<T>,
    Global<T>,
    Global<u32>,
    Global<u32>,
    Global<f32>,
    Global<u32>,
    Global<O>,
    [u32; CACHE_WORDS],
)>;

/// The kernel.
#[must_use]
pub fn single_launch<T: AttentionElement>(dim: u32) -> SingleLaunch<T, T::Out> {
    let body = move |q: Global<T>,
                     k: Global<T>,
                     v: Global<T>,
                     lens: Global<u32>,
                     table: Global<u32>,
                     parts: Global<f32>,
                     tickets: Global<u32>,
                     o: Global<T::Out>,
                     sizes: Array<u32, CACHE_WORDS>| {
        // Shared-memory map
        let is_last = shared_named::<u32>("is_last", 1);
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
            cache.store_part(&state, parts, part, PART);
            // Hand over: the release side shows this block's parts to the last one, whose acquire side sees all.
            sync_threads();
            let num = len.div_ceil(PART);
            when(thread_idx().x.eq(0), || {
                let ticket = tickets.at(cache.sequence() * grid_dim().x + block_idx().x).atomic();
                // Wraps to zero at the last block: the counter is ready for the next launch.
                let before = ticket.order(Order::AcqRel).increment_wrapping(num - 1);
                is_last.set(before.eq(num - 1).cast::<u32>());
            });
            sync_threads();
            // Epilogue
            when(is_last.get().ne(0), || {
                let (head, exists) = cache.own_row();
                cache.store(&cache.combine_parts(parts, head, num, PART), o, head, exists);
            });
        });
    };
    kernel(format!("decode_single_launch_{}_{dim}", T::NAME), body).required_block(THREADS).min_blocks(1)
}
