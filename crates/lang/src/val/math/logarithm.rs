//! Logarithms: `x = 2^e (1 + f)`, and `ln(1 + f)` as a series in `s = f / (2 + f)`.

use super::constants::{LN_2, LOG2_E, LOG10_2, LOG10_E, TWO_THIRDS};
use super::twofold::Twofold;
use super::{Functions, polynomial};
use crate::Val;

/// `x = 2^exponent * fraction` with a fraction in [√½, √2), for a positive `x`.
fn split<T: Functions>(x: Val<T>) -> (Val<T>, Val<T>) {
    let digits = T::DIGITS.cast_signed();
    let is_subnormal = x.lt(T::real(f64::from(T::MIN_EXPONENT).exp2()));
    let normal = is_subnormal.select(x * T::real(f64::from(digits).exp2()), x);
    let (exponent, fraction) = T::split(normal);
    ((exponent - is_subnormal.select(digits, 0)).cast(), fraction)
}

/// `ln(1 + f) - f` for `1 + f` in [√½, √2).
fn ln_beyond_first<T: Functions>(f: Val<T>) -> Val<T> {
    let s = f / (f + T::real(2.0));
    let square = s * s;
    // ln(1 + f) = 2s + s³ p(s²), and 2s = f - s f.
    s * square.mul_add(polynomial(square, T::LN), -f)
}

/// The result for positive numbers, and the limits elsewhere.
fn with_limits<T: Functions>(x: Val<T>, result: Val<T>) -> Val<T> {
    let infinity = Val::constant(T::HIGHEST);
    let undefined = x.eq(T::real(0.0)).select(Val::constant(T::LOWEST), T::real(f64::NAN));
    let special = x.eq(infinity).select(infinity, undefined);
    (x.gt(T::real(0.0)) & x.lt(infinity)).select(result, special)
}

/// The natural logarithm.
pub(super) fn ln<T: Functions>(x: Val<T>) -> Val<T> {
    let (exponent, fraction) = split(x);
    let f = fraction - T::real(1.0);
    let [high, low, _] = T::parts(LN_2);
    let small = f + exponent.mul_add(low, ln_beyond_first(f));
    with_limits(x, exponent.mul_add(high, small))
}

/// The logarithm to a base, of which 2 and e have these logarithms.
fn log_to_base<T: Functions>(x: Val<T>, of_2: [f64; 3], of_e: [f64; 3]) -> Val<T> {
    let (exponent, fraction) = split(x);
    let f = fraction - T::real(1.0);
    let times = |x: Twofold<T>, constant: [f64; 3]| {
        let [high, low, _] = T::parts(constant);
        x.times(Twofold { high, low })
    };
    let small = times(Twofold::sum_of_ordered(f, ln_beyond_first(f)), of_e);
    let large = times(Twofold { high: exponent, low: T::real(0.0) }, of_2);
    let sum = Twofold::sum_of_ordered(large.high, small.high);
    with_limits(x, sum.high + (sum.low + (large.low + small.low)))
}

/// The logarithm to base 2.
pub(super) fn log2<T: Functions>(x: Val<T>) -> Val<T> {
    log_to_base(x, [1.0, 0.0, 0.0], LOG2_E)
}

/// The logarithm to base 10.
pub(super) fn log10<T: Functions>(x: Val<T>) -> Val<T> {
    log_to_base(x, LOG10_2, LOG10_E)
}

/// `ln(1 + x)`
pub(super) fn log1p<T: Functions>(x: Val<T>) -> Val<T> {
    let sum = Twofold::sum(T::real(1.0), x);
    let (exponent, fraction) = T::split(sum.high);
    let f = fraction - T::real(1.0);
    // What the sum lost, in units of the fraction; of a large sum it does not matter.
    let lost = sum.low * T::power_of_two((-exponent).max(T::MIN_EXPONENT));
    let lost = (-lost).mul_add(f, lost);
    let [high, low, _] = T::parts(LN_2);
    let exponent = exponent.cast::<T>();
    let small = f + exponent.mul_add(low, ln_beyond_first(f) + lost);
    // -0 stays -0.
    with_limits(sum.high, exponent.mul_add(high, small)).copysign(x)
}

/// The natural logarithm of a positive number with a relative error of some 2^-66 (`f64`) or 2^-36
/// (`f32`).
pub(super) fn ln_twofold<T: Functions>(x: Val<T>) -> Twofold<T> {
    let (exponent, fraction) = split(x);
    let f = fraction - T::real(1.0);
    let high = fraction + T::real(1.0);
    let divisor = Twofold { high, low: fraction - (high - T::real(1.0)) };
    let inverse = T::real(1.0) / divisor.high;
    let high = f * inverse;
    let s = Twofold { high, low: inverse * (-high).mul_add(divisor.low, (-high).mul_add(divisor.high, f)) };
    let square = s.times(s);
    // 2s + s³ (2/3 + s² p(s²))
    let [two_thirds, more, _] = T::parts(TWO_THIRDS);
    let tail = square.high * polynomial(square.high, T::LN_TAIL);
    let factor = Twofold::sum_of_ordered(two_thirds, tail).plus_low(more);
    let cubic = s.times(square).times(factor);
    let twice = s.high + s.high;
    let small = Twofold::sum_of_ordered(twice, cubic.high).plus_low(cubic.low + (s.low + s.low));
    let [high, low, _] = T::parts(LN_2);
    let large = Twofold { high: exponent, low: T::real(0.0) }.times(Twofold { high, low });
    Twofold::sum_of_ordered(large.high, small.high).plus_low(large.low + small.low).normalized()
}
