//! A grid-stride loop over all values, by 16-byte loads.

use warpfold_lang::{Global, Val, block_idx, grid_dim, range, thread_idx, when};

use super::values::{Value, load};

/// Vectors that a thread has in flight: with the blocks that fit an SM they come to 48 KiB.
pub(super) const fn vectors_under_way(block: u32) -> u32 {
    if block > 512 { 3 } else { 2 }
}

/// The same in bytes.
pub(super) fn bytes_under_way(block: u32) -> u64 {
    u64::from(16 * vectors_under_way(block))
}

/// Gives each of `len` values to `take`, in some thread of a grid of `block` threads per block.
///
/// Values before the first multiple of 16 bytes, and those after the last whole vector, go to the
/// first threads.
///
/// # Panics
/// If `block` is below 16.
#[track_caller]
pub fn for_each_value<T: Value>(block: u32, input: Global<T>, len: Val<u64>, take: impl Fn(Val<T>)) {
    assert!(block >= 16, "the values beside whole vectors need 16 threads, not {block}");
    let thread = block_idx().x.cast::<u64>() * u64::from(block) + thread_idx().x.cast::<u64>();
    let num_threads = grid_dim().x.cast::<u64>() * u64::from(block);
    let before = (0_u64 - input.address()) & 15;
    let head = (before / u64::from(<T as warpfold_lang::Element>::BYTES)).min(len);
    let width = u64::from(T::VECTOR);
    let num_vectors = (len - head) / width;
    when(thread.lt(head), || take(load(input, thread)));
    let vectors = input.at(head);
    let under_way = vectors_under_way(block);
    range(thread, num_vectors, num_threads * u64::from(under_way), |first| {
        let loads = (0..under_way).map(|n| {
            let i = first + num_threads * u64::from(n);
            let is_inside = if n == 0 { Val::constant(true) } else { i.lt(num_vectors) };
            (T::load_vector_if(vectors.at(i * width), is_inside), is_inside)
        });
        for (values, is_inside) in loads.collect::<Vec<_>>() {
            when(is_inside, || values.into_iter().for_each(&take));
        }
    });
    let rest = head + num_vectors * width + thread;
    when(rest.lt(len), || take(load(input, rest)));
}
