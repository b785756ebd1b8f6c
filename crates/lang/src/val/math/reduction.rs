//! Angles modulo π/2: by three parts of π/2 (Cody & Waite 1980), or by the bits of 2/π that matter
//! (Payne & Hanek 1983).

use super::Functions;
use super::constants::HALF_PI;
use super::twofold::Twofold;
use crate::intrinsics::table;
use crate::recorder::with;
use crate::{Val, when_else};

/// 64 zero bits and then the bits of 2/π after the point.
const TWO_OVER_PI: [u64; 22] = [
    0x0000_0000_0000_0000,
    0xa2f9_836e_4e44_1529,
    0xfc27_57d1_f534_ddc0,
    0xdb62_9599_3c43_9041,
    0xfe51_63ab_debb_c561,
    0xb724_6e3a_424d_d2e0,
    0x0649_2eea_09d1_921c,
    0xfe1d_eb1c_b129_a73e,
    0xe882_35f5_2ebb_4484,
    0xe99c_7026_b45f_7e41,
    0x3991_d639_8353_39f4,
    0x9c84_5f8b_bdf9_283b,
    0x1ff8_97ff_de05_980f,
    0xef2f_118b_5a0a_6d1f,
    0x6d36_7ecf_27cb_09b7,
    0x4f46_3f66_9e5f_ea2d,
    0x7527_bac7_ebe5_f17b,
    0x3d07_39f7_8a52_92ea,
    0x6bfb_5fb1_1f8d_5d08,
    0x5603_3046_fc7b_6bab,
    0xf0cf_bc20_9af4_361d,
    0xa9e3_9161_5ee6_1b08,
];

/// `angle = quadrant π/2 + rest`, the quadrant modulo 4 at least, |rest| up to π/4 or a little
/// more.
pub(super) fn quadrant<T: Functions>(angle: Val<T>) -> (Val<i32>, Twofold<T>) {
    let is_large = angle.abs().ge(T::real(T::ANGLE_LIMIT));
    let (quadrant, high, low) = when_else(
        is_large,
        || {
            let (quadrant, rest) = by_bits(angle);
            (quadrant, rest.high, rest.low)
        },
        || {
            let (quadrant, rest) = by_parts(angle);
            (quadrant, rest.high, rest.low)
        },
    );
    (quadrant, Twofold { high, low })
}

fn by_parts<T: Functions>(angle: Val<T>) -> (Val<i32>, Twofold<T>) {
    let (k, quadrant) = T::nearest_integer(angle * T::real(std::f64::consts::FRAC_2_PI));
    let [first, second, third] = T::parts(HALF_PI);
    // Exact: the difference is a multiple of the last place of the first part.
    let difference = (-k).mul_add(first, angle);
    let product = Twofold::product(k, second);
    let rest = Twofold::sum(difference, -product.high);
    let low = (-k).mul_add(third, rest.low - product.low);
    (quadrant, Twofold { low, ..rest }.normalized())
}

/// The product of the significand and the 192 bits of 2/π of which it does not make multiples of 4.
fn by_bits<T: Functions>(angle: Val<T>) -> (Val<i32>, Twofold<T>) {
    let (significand, exponent) = T::integer_significand(angle.abs());
    // The first bit that matters has the value 2^(1 - exponent), the second after the point 2^-2.
    let position = exponent + 62;
    let (word, bit) = ((position >> 6).cast::<u32>(), (position & 63).cast::<u32>());
    let words = with(|r| table::lookup(r, "two_over_pi", &TWO_OVER_PI, word.raw(), 4));
    let words: Vec<Val<u64>> = words.into_iter().map(Val::from_raw).collect();
    // A shift by 64 gives zero.
    let bits: [Val<u64>; 3] = std::array::from_fn(|i| words[i] << bit | words[i + 1] >> (Val::constant(64_u32) - bit));
    let (mid, low) = (bits[1] * significand, bits[2].mul_hi(significand));
    let fraction_low = mid + low;
    let carry = fraction_low.lt(mid).cast::<u64>();
    let fraction = bits[0] * significand + bits[1].mul_hi(significand) + carry;

    // Two bits are the quadrant; the rest is rounded to the nearest one.
    let high = (fraction << 2 | fraction_low >> 62).bitcast::<i64>();
    let low = fraction_low << 2;
    let quadrant = (fraction >> 62).cast::<i32>() + high.lt(0).cast::<i32>();
    let rest = fraction_of_turn(high, low);
    let [first, second, _] = T::parts(HALF_PI);
    let rest = rest.times(Twofold { high: first, low: second }).normalized();
    // An infinite angle becomes NaN.
    let rest = Twofold { high: angle.mul_add(T::real(0.0), rest.high), ..rest };
    let is_negative = angle.lt(T::real(0.0));
    let signed = |x: Val<T>| is_negative.select(-x, x);
    (is_negative.select(-quadrant, quadrant), Twofold { high: signed(rest.high), low: signed(rest.low) })
}

/// `(high + low 2^-64) 2^-64` as a sum of two.
fn fraction_of_turn<T: Functions>(high: Val<i64>, low: Val<u64>) -> Twofold<T> {
    let rounded = high.cast::<T>();
    // What rounds to 2^63 comes back as 2^63 - 1: an error of 2^-63 in a number near one half.
    let lost = (high - rounded.cast::<i64>()).cast::<T>();
    let unit = T::real((-64.0_f64).exp2());
    let low = low.cast::<T>().mul_add(unit, lost);
    let sum = Twofold::sum_of_ordered(rounded, low);
    Twofold { high: sum.high * unit, low: sum.low * unit }
}
