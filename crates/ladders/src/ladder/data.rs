//! The data of ladders: a fixed function of seed and position, so that nobody has to keep it.

use crate::LadderElement;

/// The element at a position.
pub(crate) fn sample<T: LadderElement>(seed: u64, index: usize) -> T {
    T::sample(mix(mix(seed) ^ index as u64))
}

/// The first `len` elements of the data that a seed stands for.
#[must_use]
pub fn samples<T: LadderElement>(seed: u64, len: usize) -> Vec<T> {
    (0..len).map(move |index| sample(seed, index)).collect()
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators,
/// 2014).
fn mix(value: u64) -> u64 {
    let z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
