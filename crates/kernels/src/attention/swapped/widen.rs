//! 8-bit floats as pairs of 16-bit ones, by moves of bits: exact, subnormal numbers too.

use warpfold_lang::{HalfOfPair, Lanes, Val, WarpgroupFragment, when};

use super::super::factor::Factor;
use crate::Dtype;

/// From a format of 8 bits to one of 16. Exponent and mantissa move to where the wider format has
/// its own, so that the number is off by the difference of the exponents' biases: a power of two.
#[derive(Debug, Clone, Copy)]
pub(super) struct Widen {
    /// How far magnitudes are from the upper byte's end.
    shift: u32,
    /// The power of two, as bits of the wider format; none where the biases are the same.
    factor: Option<u32>,
    /// The first byte that is no number, and the magnitude that becomes of it.
    no_number: [u32; 2],
    /// How far the first bit of the wider exponent is above the first of its mantissa.
    exponent_bits: u32,
}

/// Two elements of a word, and their magnitudes before they were multiplied.
pub(super) struct Widened<P> {
    pair: Val<P>,
    magnitudes: Val<P>,
}

const SIGNS: u32 = 0x8000_8000;

/// The same half twice.
const fn twice(half: u32) -> u32 {
    half << 16 | half
}

impl Widen {
    pub(super) fn new(from: Dtype, to: Dtype) -> Self {
        let (byte, is_bf16) = (if from == Dtype::F8E4M3 { 0x7f } else { 0x7c }, to == Dtype::Bf16);
        let (shift, factor, first, exponent_bits) = match (byte, is_bf16) {
            // 2^120, and 480.
            (0x7f, true) => (4, Some(0x7b80), 0x43f0, 8),
            // 2^8, and 480.
            (0x7f, false) => (1, Some(0x5c00), 0x5f80, 5),
            // 2^112, and 65536.
            (_, true) => (3, Some(0x7780), 0x4780, 8),
            // The upper byte.
            (_, false) => (0, None, 0x7c00, 5),
        };
        Self { shift, factor, no_number: [byte, first], exponent_bits }
    }

    /// The even and the odd bytes of a word.
    pub(super) fn pairs<T: HalfOfPair>(&self, word: Val<u32>) -> [Widened<T::Pair>; 2] {
        let Self { shift, factor, .. } = *self;
        [word << 8, word].map(|upper| {
            let magnitudes = (upper >> shift) & twice(0x7f00 >> shift);
            let bits = magnitudes | (upper & SIGNS);
            let pair = bits.bitcast::<T::Pair>();
            let factor = factor.map(|factor| Val::<u32>::constant(twice(factor)).bitcast::<T::Pair>());
            Widened { pair: factor.map_or(pair, |factor| pair * factor), magnitudes: magnitudes.bitcast() }
        })
    }

    /// Sets a fragment to pairs. A power of two makes a number of what was none; so where any was,
    /// all are looked at again.
    pub(super) fn set<T: Factor + HalfOfPair>(&self, fragment: &WarpgroupFragment<T>, pairs: &[Widened<T::Pair>]) {
        fragment.set_pairs(&pairs.iter().map(|two| two.pair).collect::<Vec<_>>());
        let Self { shift, factor: Some(_), no_number: [byte, first], exponent_bits } = *self else { return };
        let at_least = |magnitudes: Val<u32>, bound: u32| (magnitudes + twice(0x8000 - bound)) & SIGNS;
        let largest = pairs.iter().map(|two| two.magnitudes).reduce(Val::max).expect("a fragment has registers");
        let has_any = at_least(largest.bitcast(), byte << 8 >> shift).ne(0);
        when(Lanes::all_lanes().any(has_any), || {
            // All bits of the exponent: infinite where the mantissa is zero, else no number.
            let repaired = pairs.iter().map(|two| {
                let bits = two.pair.bitcast::<u32>();
                let none = at_least(bits & !SIGNS, first);
                (bits | (none - (none >> exponent_bits))).bitcast::<T::Pair>()
            });
            fragment.set_pairs(&repaired.collect::<Vec<_>>());
        });
    }
}
