//! Exponentials: `e^x = 2^k e^r` with |r| up to ln(2) / 2, and what follows from them.

use super::constants::{LN_2, LOG2_E};
use super::twofold::Twofold;
use super::{Functions, polynomial};
use crate::Val;

/// `x = exponent ln(2) + rest`: the exponent twice, and the rest.
fn reduce<T: Functions>(x: Val<T>) -> (Val<i32>, Val<T>) {
    let (k, exponent) = T::nearest_integer(x * T::real(LOG2_E[0]));
    let [high, low, _] = T::parts(LN_2);
    // The first product cancels exactly.
    (exponent, (-k).mul_add(low, (-k).mul_add(high, x)))
}

/// `e^(rest + low) - 1` for a `low` of at most a unit in the last place.
fn expm1_of_rest<T: Functions>(rest: Val<T>, low: Option<Val<T>>) -> Val<T> {
    let square = rest * rest;
    let tail = polynomial(rest, T::EXP);
    rest + low.map_or_else(|| square * tail, |low| square.mul_add(tail, low))
}

/// `fraction * 2^exponent`, rounded once, for exponents up to twice those of normal numbers.
fn scale<T: Functions>(fraction: Val<T>, exponent: Val<i32>) -> Val<T> {
    let half = exponent >> 1;
    fraction * T::power_of_two(half) * T::power_of_two(exponent - half)
}

/// `e^x * 2^more`, where `x` is not far below the range.
fn scaled_exp<T: Functions>(x: Val<T>, low: Option<Val<T>>, more: i32) -> Val<T> {
    let (exponent, rest) = reduce(x);
    let minus_one = match low {
        None => expm1_of_rest(rest, None),
        Some(low) => {
            let rest = Twofold::sum_of_ordered(rest, low);
            expm1_of_rest(rest.high, Some(rest.low))
        }
    };
    let result = scale(minus_one + T::real(1.0), exponent + more);
    x.gt(T::real(T::EXP_LIMIT)).select(Val::constant(T::HIGHEST), result)
}

/// `e^(x + low)` for a small `low`.
pub(super) fn exp<T: Functions>(x: Val<T>, low: Option<Val<T>>) -> Val<T> {
    let result = scaled_exp(x, low, 0);
    x.lt(T::real(-T::EXP_LIMIT)).select(Val::constant(T::ZERO), result)
}

/// `2^x`
pub(super) fn exp2<T: Functions>(x: Val<T>) -> Val<T> {
    let (k, exponent) = T::nearest_integer(x);
    let [high, low, _] = T::parts(LN_2);
    let fraction = x - k;
    let rest = fraction * high;
    let rest_low = fraction.mul_add(low, fraction.mul_add(high, -rest));
    let result = scale(expm1_of_rest(rest, Some(rest_low)) + T::real(1.0), exponent);
    let limit = T::EXP_LIMIT * LOG2_E[0];
    let in_range = x.lt(T::real(-limit)).select(Val::constant(T::ZERO), result);
    x.gt(T::real(limit)).select(Val::constant(T::HIGHEST), in_range)
}

/// `e^x - 1` from where it rounds to -1 to where it overflows.
fn expm1_in_range<T: Functions>(x: Val<T>) -> Val<T> {
    let (exponent, rest) = reduce(x);
    let small = expm1_of_rest(rest, None);
    // 2^k (1 + small) - 1, by halves so that the power is a number.
    let power = T::power_of_two(exponent - 1);
    let half = small.mul_add(power, power - T::real(0.5));
    exponent.eq(0).select(small, half + half)
}

/// `e^x - 1`
pub(super) fn expm1<T: Functions>(x: Val<T>) -> Val<T> {
    // e^-50 is less than half a unit of -1, and its power of 2 a normal number.
    let result = x.lt(T::real(-50.0)).select(T::real(-1.0), expm1_in_range(x));
    let result = x.gt(T::real(T::EXP_OVERFLOW)).select(Val::constant(T::HIGHEST), result);
    // -0 stays -0.
    result.copysign(x)
}

/// `(e^x - e^-x) / 2`
pub(super) fn sinh<T: Functions>(x: Val<T>) -> Val<T> {
    let magnitude = x.abs();
    let minus_one = expm1_in_range(magnitude);
    let small = (minus_one + minus_one / (minus_one + T::real(1.0))) * T::real(0.5);
    // From here on the other exponential is too small to matter.
    let large = scaled_exp(magnitude, None, -1);
    magnitude.lt(T::real(T::TANH_LIMIT)).select(small, large).copysign(x)
}

/// `(e^x + e^-x) / 2`
pub(super) fn cosh<T: Functions>(x: Val<T>) -> Val<T> {
    let half = scaled_exp(x.abs(), None, -1);
    half + T::real(0.25) / half
}

/// `1 - 2 / (e^2x + 1)`
pub(super) fn tanh<T: Functions>(x: Val<T>) -> Val<T> {
    let magnitude = x.abs();
    let minus_one = expm1_in_range(magnitude + magnitude);
    let result = minus_one / (minus_one + T::real(2.0));
    magnitude.gt(T::real(T::TANH_LIMIT)).select(T::real(1.0), result).copysign(x)
}

/// `1 / (1 + e^-x)`, without overflow.
pub(super) fn sigmoid<T: Functions>(x: Val<T>) -> Val<T> {
    let small = exp(-x.abs(), None);
    let numerator = x.lt(T::real(0.0)).select(small, T::real(1.0));
    numerator / (small + T::real(1.0))
}
