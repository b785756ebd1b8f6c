//! Powers: `x^y = e^(y ln x)` with a logarithm of twice the digits, and the cases that C's `pow`
//! lists; cube roots.

use super::constants::THIRD;
use super::twofold::Twofold;
use super::{Functions, exponential, logarithm};
use crate::{Rounding, Val};

/// The cube root.
pub(super) fn cbrt<T: Functions>(x: Val<T>) -> Val<T> {
    let base = x.abs();
    let [high, low, _] = T::parts(THIRD);
    let third = logarithm::ln_twofold(base).times(Twofold { high, low });
    let root = exponential::exp(third.high, Some(third.low));
    // 0, infinity and NaN are their own roots.
    let is_ordinary = base.gt(T::real(0.0)) & base.is_finite();
    is_ordinary.select(root.copysign(x), x)
}

/// `x^y`
pub(super) fn pow<T: Functions>(x: Val<T>, y: Val<T>) -> Val<T> {
    let [zero, one, infinity] = [T::ZERO, T::ONE, T::HIGHEST].map(Val::constant);
    let base = x.abs();
    let ln = logarithm::ln_twofold(base);
    let product = Twofold::product(ln.high, y);
    let magnitude = exponential::exp(product.high, Some(ln.low.mul_add(y, product.low)));

    // 0 and infinity, to a positive or a negative power.
    let is_limit = base.eq(zero) | base.eq(infinity);
    let limit = base.eq(zero).eq(y.lt(zero)).select(infinity, zero);
    let magnitude = is_limit.select(limit, magnitude);

    // A negative base has integer powers only; the odd ones are negative.
    let half = y * T::real(0.5);
    let is_integer = y.round(Rounding::Zero).eq(y);
    let is_odd = is_integer & half.round(Rounding::Zero).ne(half);
    let signed = is_odd.select(magnitude.copysign(x), magnitude);
    let is_undefined = x.lt(zero) & x.gt(-infinity) & !is_integer;
    let result = (is_undefined | x.is_nan() | y.is_nan()).select(T::real(f64::NAN), signed);
    let is_one = x.eq(one) | y.eq(zero) | (base.eq(one) & y.abs().eq(infinity));
    is_one.select(one, result)
}
